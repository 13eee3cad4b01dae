package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Sizes of the plot, in pixels.
const (
	plotWidth  = 760
	plotLabel  = 150 // room for a system's name
	plotNumber = 90  // room for a number behind its bar
	plotBar    = 16
	plotStep   = 22 // from bar to bar
	plotGap    = 46 // from panel to panel, the title inside
)

// plot draws the table as SVG: a panel for each row, a bar for each system,
// with a thin line from the worst to the best round.
func plot(t *table) string {
	var b strings.Builder
	y := 8
	for _, unit := range t.units() {
		for _, r := range t.Rows {
			if r.Unit == unit && len(r.Median) > 0 {
				y = panel(&b, t.Systems, r, y)
			}
		}
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "+
		"font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n%s</svg>\n",
		plotWidth, y+8, plotWidth, y+8, b.String())
}

// panel draws one row from y on and returns where it ends.
func panel(b *strings.Builder, systems []string, r *row, y int) int {
	better := "less is better"
	if r.Unit == perSecond {
		better = "more is better"
	}
	fmt.Fprintf(b, "<text x=\"8\" y=\"%d\" font-weight=\"bold\">%s, %s "+
		"<tspan font-weight=\"normal\" fill=\"#666\">(%s)</tspan></text>\n", y+22, html.EscapeString(r.Name),
		html.EscapeString(r.Unit), better)
	most := 0.0
	for _, all := range r.Values {
		most = max(most, slices.Max(all))
	}
	scale := float64(plotWidth-plotLabel-plotNumber) / most
	y += plotGap - plotStep/2
	for _, s := range systems {
		if all := r.Values[s]; len(all) > 0 {
			bar(b, s, all, scale, y)
			y += plotStep
		}
	}
	return y
}

// bar draws one system's median and range.
func bar(b *strings.Builder, system string, all []float64, scale float64, y int) {
	at := func(v float64) float64 { return plotLabel + v*scale }
	fill := "#9aa7b4"
	if strings.HasPrefix(system, "daybook") {
		fill = "#2f7d4f"
	}
	middle, m := y+plotBar/2, median(all)
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", plotLabel-8, y+13, html.EscapeString(system))
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>", plotLabel, y, m*scale, plotBar,
		fill)
	fmt.Fprintf(b, "<path d=\"M%.1f %dH%.1f\" stroke=\"#333\"/>", at(slices.Min(all)), middle, at(slices.Max(all)))
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", at(slices.Max(all))+6, y+13, number(m))
}
