#include "tools/page_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::tools {
namespace {

constexpr double kLeft = 70, kRight = 980, kTop = 16, kBottom = 390;

// A round step that cuts `range` into about five.
double tick_of(double range) {
  const double rough = range / 5;
  const double power = std::pow(10, std::floor(std::log10(std::max(rough, 1e-12))));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= rough) {
      return step * power;
    }
  }
  return 10 * power;
}

// Values of one axis and where they lie in the drawing, a box of 1000 x 440.
struct Axis {
  double low = 0, high = 0;
  bool logarithmic = false;
  double from = 0, to = 0;
  std::vector<double> fixed = {};  // ticks, instead of round ones

  [[nodiscard]] double place(double value) const {
    const double share = logarithmic ? std::log(std::max(value, low) / low) / std::log(high / low)
                                     : (value - low) / std::max(high - low, 1e-12);
    return from + (to - from) * share;
  }

  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> values;
    if (!fixed.empty()) {
      return fixed;
    }
    if (!logarithmic || high / low < 4) {
      const double step = tick_of(high - low);
      for (double i = std::ceil(low / step); i * step <= high; ++i) {
        values.push_back(i * step);
      }
      return values;
    }
    // 1, 2, 5 of each power of ten, or the powers alone over a long range.
    const bool powers_alone = high / low > 1e3;
    const int last = static_cast<int>(std::floor(std::log10(high)));
    for (int exponent = static_cast<int>(std::floor(std::log10(low))); exponent <= last;
         ++exponent) {
      const double power = std::pow(10, exponent);
      for (const double step : {1.0, 2.0, 5.0}) {
        const double value = step * power;
        if (value >= low && value <= high && (!powers_alone || step == 1.0)) {
          values.push_back(value);
        }
      }
    }
    return values;
  }
};

Axis axis(double least, double most, bool logarithmic, double from, double to) {
  if (!logarithmic) {
    return {0, std::max(most, 1e-12), false, from, to, {}};
  }
  const double low = std::max(least, 1e-12) / 1.1;
  return {low, std::max(most, low) * 1.1, true, from, to, {}};
}

std::string grid(const Axis& x, const Axis& y, const std::string& x_name,
                 const std::string& y_name) {
  std::string text;
  for (const double tick : x.ticks()) {
    text += fmt::format(
        "<line class=\"a\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>",
        x.place(tick), kTop, kBottom, kBottom + 17, tick);
  }
  for (const double tick : y.ticks()) {
    text += fmt::format(
        "<line class=\"a\" x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>",
        y.place(tick), kLeft, kRight, kLeft - 6, y.place(tick) + 4, tick);
  }
  text += fmt::format("<text x=\"{}\" y=\"432\" text-anchor=\"middle\">{}</text>",
                      (kLeft + kRight) / 2, html_text(x_name));
  text += fmt::format(
      "<text x=\"16\" y=\"{0}\" transform=\"rotate(-90 16 {0})\" text-anchor=\"middle\">{1}</text>",
      (kTop + kBottom) / 2, html_text(y_name));
  return text;
}

std::string svg(const std::string& title, const std::string& inside) {
  return fmt::format("<svg viewBox=\"0 0 1000 440\" role=\"img\" aria-label=\"{}\">{}</svg>",
                     html_text(title), inside);
}

std::string circle(double x, double y, int radius, const char* colour, const std::string& hover) {
  return fmt::format(
      "<circle tabindex=\"0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\">"
      "<title>{}</title></circle>",
      x, y, radius, colour, html_text(hover));
}

std::string scatter_point(const ChartPoint& point, const Axis& x, const Axis& y) {
  const char* colour = point.marked ? "#228833" : point.faint ? "#999999" : "#4477aa";
  std::string text;
  if (point.high > point.low) {
    text += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" "
        "stroke=\"{}\" stroke-opacity=\".45\"/>",
        x.place(point.low), x.place(point.high), y.place(point.y), y.place(point.y), colour);
  }
  const std::string dot = circle(x.place(point.x), y.place(point.y), point.marked ? 7 : 5, colour,
                                 point.name + ": " + point.text);
  text +=
      point.link.empty() ? dot : fmt::format("<a href=\"#{}\">{}</a>", html_text(point.link), dot);
  if (point.marked) {
    const bool left = x.place(point.x) > (kLeft + kRight) / 2;
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                        x.place(point.x) + (left ? -10 : 10), y.place(point.y) - 10,
                        left ? "end" : "start", html_text(point.name));
  }
  return text;
}

// The band between the points' low and high, and the line itself.
std::string drawn_line(const Line& line, const char* colour, const Axis& x, const Axis& y) {
  std::string path;
  std::string upper;
  std::string lower;
  std::string circles;
  for (const ChartPoint& point : line.points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.place(point.x),
                        y.place(point.y));
    if (point.high > point.low) {
      upper += fmt::format("{:.1f},{:.1f} ", x.place(point.x), y.place(point.high));
      lower.insert(0, fmt::format("{:.1f},{:.1f} ", x.place(point.x), y.place(point.low)));
    }
    if (!line.dashed) {
      circles +=
          circle(x.place(point.x), y.place(point.y), 5, colour, point.name + ": " + point.text);
    }
  }
  std::string text;
  if (!upper.empty()) {
    text += fmt::format("<polygon points=\"{}{}\" fill=\"{}\" fill-opacity=\".18\"/>", upper, lower,
                        colour);
  }
  return text +
         fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>", path,
                     colour, line.dashed ? " stroke-dasharray=\"7 5\"" : "") +
         circles;
}

// A line from top to bottom, with its name beside it.
std::string marked(const Axis& x, const LineMark& mark, double down) {
  const double at = x.place(mark.x);
  const bool left = at > (kLeft + kRight) / 2;
  return fmt::format(
      "<line class=\"lim\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
      "<text x=\"{3:.1f}\" y=\"{4}\" text-anchor=\"{5}\">{6}</text>",
      at, kTop, kBottom, at + (left ? -6 : 6), down, left ? "end" : "start", html_text(mark.name));
}

}  // namespace

std::string scatter_svg(const Scatter& chart) {
  double x_most = 0;
  double y_most = chart.y_limit;
  for (const ChartPoint& point : chart.points) {
    x_most = std::max({x_most, point.x, point.high});
    y_most = std::max(y_most, point.y);
  }
  const Axis x = axis(0, x_most * 1.05, false, kLeft, kRight);
  const Axis y = axis(0, y_most * 1.08, false, kBottom, kTop);
  std::string inside = grid(x, y, chart.x_name, chart.y_name);
  if (chart.y_limit > 0) {
    const double at = y.place(chart.y_limit);
    inside += fmt::format(
        "<line class=\"lim\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        kLeft, kRight, at, at, kRight, at - 5, html_text(chart.limit_name));
  }
  if (chart.diagonal) {
    const double end = std::min(x.high, y.high);
    inside +=
        fmt::format("<line class=\"lim\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                    x.place(0), x.place(end), y.place(0), y.place(end));
  }
  for (const ChartPoint& point : chart.points) {
    inside += scatter_point(point, x, y);
  }
  return svg(chart.title, inside);
}

std::string lines_svg(const LineChart& chart) {
  double x_least = 1e300;
  double x_most = 0;
  double y_least = 1e300;
  double y_most = 0;
  for (const Line& line : chart.lines) {
    for (const ChartPoint& point : line.points) {
      x_least = std::min(x_least, point.x);
      x_most = std::max(x_most, point.x);
      y_least = std::min({y_least, point.y, point.low > 0 ? point.low : point.y});
      y_most = std::max({y_most, point.y, point.high});
    }
  }
  const double room = chart.logarithmic ? 1 : 1.05;
  Axis x = axis(x_least, x_most * room, chart.logarithmic, kLeft, kRight);
  constexpr std::size_t kMostTicks = 10;
  if (chart.logarithmic && chart.lines.front().points.size() <= kMostTicks) {
    for (const ChartPoint& point : chart.lines.front().points) {
      x.fixed.push_back(point.x);
    }
  }
  const Axis y = axis(y_least, y_most * room, chart.logarithmic, kBottom, kTop);
  std::string inside = grid(x, y, chart.x_name, chart.y_name);
  double down = kTop + 14;
  for (const LineMark& mark : chart.marks) {
    const double at = x.place(mark.x);
    const bool left = at > (kLeft + kRight) / 2;
    inside += fmt::format(
        "<line class=\"lim\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{3:.1f}\" y=\"{4}\" text-anchor=\"{5}\">{6}</text>",
        at, kTop, kBottom, at + (left ? -6 : 6), down, left ? "end" : "start",
        html_text(mark.name));
    down += 17;
  }
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    inside += drawn_line(chart.lines[i], colour_at(i), x, y);
  }
  return svg(chart.title, inside);
}

std::string areas_svg(const AreaChart& chart) {
  const std::size_t count = chart.x.size();
  std::vector<double> below(count);
  std::vector<double> above(count);
  double most = chart.limit;
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (const std::vector<double>& values : chart.values) {
      sum += values[i];
    }
    most = std::max(most, sum);
  }
  const Axis x = axis(0, chart.x.back() * 1.01, false, kLeft, kRight);
  const Axis y = axis(0, most * 1.08, false, kBottom, kTop);
  std::string inside;
  for (std::size_t name = 0; name < chart.names.size(); ++name) {
    std::string outline;
    std::string back;
    for (std::size_t i = 0; i < count; ++i) {
      above[i] = below[i] + chart.values[name][i];
      outline += fmt::format("{:.1f},{:.1f} ", x.place(chart.x[i]), y.place(above[i]));
      back.insert(0, fmt::format("{:.1f},{:.1f} ", x.place(chart.x[i]), y.place(below[i])));
    }
    inside += fmt::format("<polygon points=\"{}{}\" fill=\"{}\"><title>{}</title></polygon>",
                          outline, back, colour_at(name), html_text(chart.names[name]));
    below = above;
  }
  inside += grid(x, y, chart.x_name, chart.y_name);
  if (chart.limit > 0) {
    const double at = y.place(chart.limit);
    inside += fmt::format(
        "<line class=\"lim\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        kLeft, kRight, at, at, kRight, at - 5, html_text(chart.limit_name));
  }
  if (!chart.mark.name.empty()) {
    inside += marked(x, chart.mark, kTop + 14);
  }
  return svg(chart.title, inside);
}

}  // namespace trireme::tools
