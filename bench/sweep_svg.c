#include "bench/sweep_svg.h"

#include <math.h>
#include <stdio.h>

enum { PANEL_WIDTH = 380, PANEL_HEIGHT = 260, LEFT = 60, TOP = 40, GAP = 90 };

struct panel {
    FILE *f;
    double x0; /* left edge */
    double y_min, y_max; /* powers of ten, inclusive */
};

enum series { PUT, COPY, IOPS };

static double value_of(const struct sweep_point *p, enum series series)
{
    return series == PUT ? p->gbs : series == COPY ? p->memcpy_gbs : 1e6 / p->p50_us;
}

/* Sizes from 1 KB to 1 GB. */
static double x_of(const struct panel *panel, double bytes)
{
    return panel->x0 + (log10(bytes) - 3) / 6 * PANEL_WIDTH;
}

static double y_of(const struct panel *panel, double value)
{
    double v = log10(value) < panel->y_min ? panel->y_min : log10(value);
    return TOP + PANEL_HEIGHT - (v - panel->y_min) / (panel->y_max - panel->y_min) * PANEL_HEIGHT;
}

static void axes(const struct panel *panel, const char *title)
{
    static const char *const sizes[] = {"1 KB", "10 KB", "100 KB", "1 MB", "10 MB", "100 MB", "1 GB"};
    fprintf(panel->f,
        "<text x=\"%.0f\" y=\"24\" font-weight=\"bold\">%s</text>\n"
        "<rect x=\"%.0f\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n",
        panel->x0, title, panel->x0, TOP, PANEL_WIDTH, PANEL_HEIGHT);
    for (int i = 0; i < 7; i++)
        fprintf(panel->f, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
            x_of(panel, pow(10, i + 3)), TOP + PANEL_HEIGHT + 18, sizes[i]);
    for (int i = 0; panel->y_min + i <= panel->y_max; i++) {
        double e = panel->y_min + i, y = y_of(panel, pow(10, e));
        fprintf(panel->f,
            "<line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
            "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
            panel->x0, y, panel->x0 + PANEL_WIDTH, y, panel->x0 - 6, y + 4, pow(10, e));
    }
}

static void line(const struct panel *panel, const struct sweep_point *points, int count, int threads,
    enum series series, const char *colour, const char *dash)
{
    fprintf(panel->f,
        "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" points=\"", colour,
        dash);
    for (int i = 0; i < count; i++)
        if (points[i].threads == threads)
            fprintf(panel->f, "%.1f,%.1f ", x_of(panel, (double)points[i].bytes),
                y_of(panel, value_of(&points[i], series)));
    fprintf(panel->f, "\"/>\n");
}

static void legend(const struct panel *panel, int row, const char *text, const char *colour)
{
    int y = TOP + PANEL_HEIGHT - 14 - 16 * row;
    fprintf(panel->f,
        "<line x1=\"%.0f\" y1=\"%d\" x2=\"%.0f\" y2=\"%d\" stroke=\"%s\" stroke-width=\"2\"/>"
        "<text x=\"%.0f\" y=\"%d\">%s</text>\n",
        panel->x0 + PANEL_WIDTH - 170, y, panel->x0 + PANEL_WIDTH - 146, y, colour,
        panel->x0 + PANEL_WIDTH - 140, y + 4, text);
}

bool sweep_svg_write(const char *path, const struct sweep_point *points, int count)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    struct panel rate = {f, LEFT, -1, 2}, puts = {f, LEFT + PANEL_WIDTH + GAP, 0, 7};
    fprintf(f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        LEFT + 2 * PANEL_WIDTH + GAP + 30, TOP + PANEL_HEIGHT + 40);
    axes(&rate, "put: GB/s over object size");
    axes(&puts, "put: puts a second over object size");
    line(&rate, points, count, 1, COPY, "#b3cde3", "5 3");
    line(&rate, points, count, 2, COPY, "#fbb4ae", "5 3");
    line(&rate, points, count, 1, PUT, "#1f78b4", "");
    line(&rate, points, count, 2, PUT, "#e31a1c", "");
    line(&puts, points, count, 1, IOPS, "#1f78b4", "");
    line(&puts, points, count, 2, IOPS, "#e31a1c", "");
    legend(&rate, 0, "2 threads (dashed: memcpy)", "#e31a1c");
    legend(&rate, 1, "1 thread (dashed: memcpy)", "#1f78b4");
    legend(&puts, 0, "2 copying threads", "#e31a1c");
    legend(&puts, 1, "1 copying thread", "#1f78b4");
    fprintf(f, "</svg>\n");
    return fclose(f) == 0;
}
