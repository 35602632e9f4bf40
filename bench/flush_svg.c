#include "bench/flush_svg.h"

#include <stdio.h>

enum { WIDTH = 760, HEIGHT = 260, LEFT = 70, TOP = 40, GAP = 60, TICKS = 4 };

struct panel {
    FILE *f;
    double y0; /* top edge */
    double seconds, most; /* the axes' ends */
};

static double x_of(const struct panel *p, double seconds)
{
    return LEFT + seconds / p->seconds * WIDTH;
}

static double y_of(const struct panel *p, double value)
{
    return p->y0 + HEIGHT - value / p->most * HEIGHT;
}

static void axes(const struct panel *p, const char *title, double unit)
{
    fprintf(p->f,
        "<text x=\"%d\" y=\"%.0f\" font-weight=\"bold\">%s</text>\n"
        "<rect x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n",
        LEFT, p->y0 - 12, title, LEFT, p->y0, WIDTH, HEIGHT);
    for (int i = 0; i <= TICKS; i++) {
        double value = p->most * i / TICKS, seconds = p->seconds * i / TICKS;
        fprintf(p->f,
            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>"
            "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.3g s</text>\n",
            LEFT - 6, y_of(p, value) + 4, value / unit, x_of(p, seconds), p->y0 + HEIGHT + 16, seconds);
    }
}

enum series { BOTH, REDIS, MEMBER, LOG, TASKS };

static double value_of(const struct flush_sample *s, enum series series)
{
    return series == BOTH  ? s->redis_bytes + s->member_bytes
        : series == REDIS  ? s->redis_bytes
        : series == MEMBER ? s->member_bytes
        : series == LOG    ? s->log_bytes
                           : s->tasks;
}

static double most_of(const struct flush_sample *samples, int count, enum series series)
{
    double most = 1;
    for (int i = 0; i < count; i++)
        most = value_of(&samples[i], series) > most ? value_of(&samples[i], series) : most;
    return most;
}

static void line(const struct panel *p, const struct flush_sample *samples, int count, enum series series,
    const char *colour, int row, const char *name)
{
    int step = count / 2000 + 1;
    fprintf(p->f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", colour);
    for (int i = 0; i < count; i += step)
        fprintf(p->f, "%.1f,%.1f ", x_of(p, samples[i].seconds), y_of(p, value_of(&samples[i], series)));
    fprintf(p->f, "\"/>\n<text x=\"%d\" y=\"%.0f\" fill=\"%s\">%s</text>\n", LEFT + WIDTH - 250,
        p->y0 + HEIGHT - 12 - 15 * row, colour, name);
}

bool flush_svg_write(const char *path, const struct flush_sample *samples, int count, double cap_bytes)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    double seconds = count > 0 && samples[count - 1].seconds > 0 ? samples[count - 1].seconds : 1;
    double memory = most_of(samples, count, BOTH);
    struct panel above = {f, TOP, seconds, 1.1 * (memory > cap_bytes ? memory : cap_bytes)};
    struct panel middle = {f, TOP + HEIGHT + GAP, seconds, 1.1 * most_of(samples, count, LOG)};
    struct panel below = {f, TOP + 2 * (HEIGHT + GAP), seconds, 1.1 * most_of(samples, count, TASKS)};
    fprintf(f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 30, TOP + 3 * (HEIGHT + GAP));
    axes(&above,
        "memory of a member of the control store while tasks are flushed (MB resident, every 100 ms)", 1e6);
    line(&above, samples, count, BOTH, "#e31a1c", 2, "Redis and member, of the two that hold more");
    line(&above, samples, count, REDIS, "#1f78b4", 1, "Redis");
    line(&above, samples, count, MEMBER, "#33a02c", 0, "member with log and index");
    fprintf(f,
        "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#888\" stroke-dasharray=\"5 3\"/>"
        "<text x=\"%d\" y=\"%.1f\">cap</text>\n",
        LEFT, y_of(&above, cap_bytes), LEFT + WIDTH, y_of(&above, cap_bytes), LEFT + 4,
        y_of(&above, cap_bytes) - 4);
    axes(&middle, "its log on disk (MB)", 1e6);
    line(&middle, samples, count, LOG, "#6a3d9a", 0, "append-only files");
    axes(&below, "tasks that had their result (millions)", 1e6);
    line(&below, samples, count, TASKS, "#ff7f00", 0, "tasks");
    fprintf(f, "</svg>\n");
    return fclose(f) == 0;
}
