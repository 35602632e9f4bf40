#include "bench/failover_svg.h"

#include <math.h>
#include <stdio.h>

enum { PANEL_WIDTH = 640, PANEL_HEIGHT = 150, LEFT = 60, TOP = 40, GAP = 50 };
static const double y_min = -2, y_max = 2; /* powers of ten of a millisecond */

static double x_of(double ms)
{
    return LEFT + ms / FAILOVER_TRACE_MS * PANEL_WIDTH;
}

static double y_of(int panel, double ms)
{
    double v = log10(ms);
    v = v < y_min ? y_min : v > y_max ? y_max : v;
    return TOP + panel * (PANEL_HEIGHT + GAP) + PANEL_HEIGHT * (y_max - v) / (y_max - y_min);
}

static void axes(FILE *f, int panel, const char *title)
{
    double top = TOP + panel * (PANEL_HEIGHT + GAP);
    fprintf(f,
        "<text x=\"%d\" y=\"%.0f\" font-weight=\"bold\">latency of a put in ms over time in ms: %s</text>\n"
        "<rect x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n"
        "<line x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>\n",
        LEFT, top - 8, title, LEFT, top, PANEL_WIDTH, PANEL_HEIGHT, x_of(FAILOVER_FAULT_MS), top,
        x_of(FAILOVER_FAULT_MS), top + PANEL_HEIGHT);
    for (int ms = 0; ms <= FAILOVER_TRACE_MS; ms += 100)
        fprintf(f, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%d</text>\n", x_of(ms),
            top + PANEL_HEIGHT + 16, ms);
    for (int i = 0; i <= (int)(y_max - y_min); i++) {
        double ms = pow(10, y_min + i), y = y_of(panel, ms);
        fprintf(f,
            "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>"
            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
            LEFT, y, LEFT + PANEL_WIDTH, y, LEFT - 6, y + 4, ms);
    }
}

static void line(FILE *f, int panel, const struct failover_trace *trace, const char *colour)
{
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.2\" points=\"", colour);
    for (int ms = 0; ms < FAILOVER_TRACE_MS; ms++)
        if (trace->latency_ms[ms] > 0)
            fprintf(f, "%.1f,%.1f ", x_of(ms), y_of(panel, trace->latency_ms[ms]));
    fprintf(f, "\"/>\n");
}

bool failover_svg_write(
    const char *path, const struct failover_trace traces[FAILOVER_FAULTS][FAILOVER_PLACES])
{
    static const char *const titles[] = {"kill -9", "SIGSTOP", "link down"};
    static const char *const places[] = {"head", "middle of three", "tail"};
    static const char *const colours[] = {"#e31a1c", "#33a02c", "#1f78b4"};
    FILE *f = fopen(path, "we");
    if (f == NULL)
        return false;
    fprintf(f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        LEFT + PANEL_WIDTH + 140, TOP + FAILOVER_FAULTS * (PANEL_HEIGHT + GAP));
    for (int fault = 0; fault < FAILOVER_FAULTS; fault++) {
        axes(f, fault, titles[fault]);
        for (int place = 0; place < FAILOVER_PLACES; place++)
            if (traces[fault][place].measured)
                line(f, fault, &traces[fault][place], colours[place]);
    }
    for (int place = 0; place < FAILOVER_PLACES; place++)
        fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", LEFT + PANEL_WIDTH + 12,
            TOP + 14 + 16 * place, colours[place], places[place]);
    fprintf(f, "</svg>\n");
    return fclose(f) == 0;
}
