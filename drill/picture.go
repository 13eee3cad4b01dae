package drill

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// The picture's sizes, in pixels.
const (
	rowHeight   = 14
	plotLeft    = 190
	plotWidth   = 900
	plotRight   = 30
	loadHeight  = 70
	plotTop     = 64
	ticksWanted = 10
)

// SVG draws the drill in time: a line for each kind of fault, from when it was
// made until what it stopped went on, and the load beneath.
func (r Report) SVG(w io.Writer) error {
	rows := r.pictureRows()
	seconds := max(r.Seconds, 1)
	height := plotTop + rowHeight*len(rows) + loadHeight + 60 + 15*len(r.LeftOut)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" `+
		`font-size="10">`+"\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", plotLeft+plotWidth+plotRight, height)
	for i, line := range strings.Split(r.Verdict(), "\n") {
		fmt.Fprintf(&b, "<text x=\"10\" y=\"%d\" font-size=\"12\">%s</text>\n", 18+15*i, html.EscapeString(line))
	}
	x := func(at float64) float64 { return plotLeft + at/seconds*plotWidth }
	bottom := plotTop + rowHeight*len(rows)
	for i := range ticksWanted + 1 {
		at := seconds * float64(i) / ticksWanted
		fmt.Fprintf(&b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>"+
			"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f s</text>\n", x(at), x(at), plotTop, bottom+loadHeight, x(at),
			bottom+loadHeight+14, at)
	}
	for i, name := range rows {
		y := plotTop + rowHeight*i
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", plotLeft-6, y+10, html.EscapeString(name))
		for _, e := range r.events {
			if strings.TrimSpace(e.name+" "+e.how) == name {
				fmt.Fprintf(&b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>%s at %.1f s, "+
					"recovered in %.2f s</title></rect>\n", x(e.at.Seconds()), y+2, max(2, e.took.Seconds()/seconds*plotWidth),
					rowHeight-4, e.color(), html.EscapeString(name), e.at.Seconds(), e.took.Seconds())
			}
		}
	}
	r.drawLoad(&b, x, bottom+loadHeight)
	for i, left := range r.LeftOut {
		fmt.Fprintf(&b, "<text x=\"10\" y=\"%d\">%s</text>\n", bottom+loadHeight+40+15*i, html.EscapeString(left.String()))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// pictureRows are the kinds of fault that were made, in the table's order.
func (r Report) pictureRows() (rows []string) {
	for _, row := range r.Faults {
		name := strings.TrimSpace(row.Name + " " + row.How)
		if row.Runs+row.Void > 0 && !slices.Contains(rows, name) {
			rows = append(rows, name)
		}
	}
	return rows
}

func (e event) color() string {
	switch {
	case e.wrong > 0:
		return "#c00"
	case e.void:
		return "#bbb"
	}
	return "#27a"
}

// drawLoad draws what happened outside for the load, by second.
func (r Report) drawLoad(b *strings.Builder, x func(float64) float64, bottom int) {
	if len(r.load) == 0 {
		return
	}
	most := max(1, slices.Max(r.load))
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">load, at most %d/s</text>\n", plotLeft-6, bottom-20, most)
	for second, n := range r.load {
		tall := float64(n) / float64(most) * (loadHeight - 20)
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#9c9\"/>\n", x(float64(second)),
			float64(bottom)-tall, x(1)-x(0)-0.5, tall)
	}
}
