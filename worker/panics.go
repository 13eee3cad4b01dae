package worker

import (
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/daybookdev/daybook"
)

// broken is the outcome of a handler that didn't return: it panicked with
// value, or ended its goroutine (value nil).
func (r *run) broken(value any) daybook.Outcome {
	text, kind := "the handler ended its goroutine (runtime.Goexit)", "goexit"
	if value != nil {
		text, kind = "panic: "+show(value), "panic"
	}
	out := r.failure(fmt.Errorf("%s", text))
	out.Problem = daybook.NewProblem(text, kind, string(debug.Stack()))
	return out
}

// textOf is an error's text, also when its Error method panics.
func textOf(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("an error of type %T whose Error method panicked", err)
		}
	}()
	return err.Error()
}

// show writes a panic's value, which may be anything: huge, or part of itself.
func show(value any) string {
	switch v := value.(type) {
	case error:
		return textOf(v)
	case string:
		return v
	case []byte:
		return string(v[:min(len(v), daybook.ErrorMax)])
	}
	room := daybook.ErrorMax
	if !fits(reflect.ValueOf(value), &room) {
		return fmt.Sprintf("a large %T", value)
	}
	return fmt.Sprint(value)
}

// fits walks a value and reports whether printing it stays small. A value that
// holds itself never fits.
func fits(v reflect.Value, room *int) bool {
	*room -= 8
	if *room < 0 {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		*room -= v.Len()
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || fits(v.Elem(), room)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !fits(v.Index(i), room) {
				return false
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if !fits(entries.Key(), room) || !fits(entries.Value(), room) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !fits(v.Field(i), room) {
				return false
			}
		}
	}
	return *room >= 0
}
