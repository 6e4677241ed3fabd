#include "tools/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/files.h"
#include "core/json_reader.h"

namespace trireme::tools {
namespace {

constexpr std::array<const char*, 10> kColours = {"#4477aa", "#228833", "#ccbb44", "#ee6677",
                                                  "#66ccee", "#aa3377", "#999933", "#882255",
                                                  "#117733", "#777777"};

constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--paper:#ffffff;--line:#d0d7de;
--band:#eef1f4;--mark:#cf222e}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b3;--paper:#0d1117;
--line:#30363d;--band:#161b22;--mark:#ff7b72}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1500px;padding:16px;font:15px/1.5 system-ui,sans-serif;
color:var(--ink);background:var(--paper)}
h1{font-size:1.35rem;margin:.2em 0 .6em;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:1.6em 0 .5em}
p{margin:.4em 0;color:var(--soft)}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:3px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th.t,td.t{text-align:left}th{color:var(--soft);font-weight:600}
.bars{display:grid;grid-template-columns:minmax(90px,max-content) 1fr;gap:6px 10px;align-items:center}
@media(max-width:700px){.bars{grid-template-columns:36% 1fr}}
.bars .n{overflow-wrap:anywhere}
.bar{position:relative;height:24px;background:var(--band);border-radius:3px}
.bar i{position:absolute;top:0;bottom:0;display:block}
.bar .w{position:absolute;top:11px;height:2px;background:var(--ink)}
.bar .l{position:absolute;top:-3px;bottom:-3px;width:2px;background:var(--mark)}
.v{grid-column:2;font-size:.85rem;color:var(--soft);margin-top:-4px}
.key span{display:inline-block;margin-right:14px;white-space:nowrap}
.key b{display:inline-block;width:11px;height:11px;margin-right:5px;border-radius:2px}
svg{display:block;width:100%;min-width:520px;max-width:1000px;height:auto}
svg text{fill:var(--soft);font-size:13px}svg .a{stroke:var(--line)}svg .lim{stroke:var(--mark);stroke-dasharray:6 4}
)css";

double total(const Bar& bar) {
  double sum = 0;
  for (const BarPart& part : bar.parts) {
    sum += part.value;
  }
  return sum;
}

// Names of parts in the order in which they first appear: their colours.
std::vector<std::string> part_names(const BarChart& chart) {
  std::vector<std::string> names;
  for (const Bar& bar : chart.bars) {
    for (const BarPart& part : bar.parts) {
      if (std::find(names.begin(), names.end(), part.name) == names.end()) {
        names.push_back(part.name);
      }
    }
  }
  return names;
}

const char* colour_of(const std::vector<std::string>& names, const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name) - names.begin();
  return kColours[static_cast<std::size_t>(at) % kColours.size()];
}

std::string key_of(const std::vector<std::string>& names) {
  std::string key;
  for (const std::string& name : names) {
    key += fmt::format("<span><b style=\"background:{}\"></b>{}</span>", colour_of(names, name),
                       html_text(name));
  }
  return names.size() > 1 ? "<p class=\"key\">" + key + "</p>\n" : "";
}

std::string bar_of(const Bar& bar, const std::vector<std::string>& names, double most,
                   double limit) {
  std::string inside;
  double at = 0;
  for (const BarPart& part : bar.parts) {
    inside += fmt::format(
        "<i style=\"left:{:.2f}%;width:{:.2f}%;background:{}\" title=\"{}: {:.4g}\"></i>",
        100 * at / most, 100 * part.value / most, colour_of(names, part.name), html_text(part.name),
        part.value);
    at += part.value;
  }
  if (bar.high > bar.low) {
    inside += fmt::format("<span class=\"w\" style=\"left:{:.2f}%;width:{:.2f}%\"></span>",
                          100 * bar.low / most, 100 * (bar.high - bar.low) / most);
  }
  if (limit > 0) {
    inside += fmt::format("<span class=\"l\" style=\"left:{:.2f}%\"></span>", 100 * limit / most);
  }
  return fmt::format(
      "<div class=\"n\">{}</div><div class=\"bar\" tabindex=\"0\" aria-label=\"{}: {}\">{}</div>"
      "<div class=\"v\">{}</div>\n",
      html_text(bar.name), html_text(bar.name), html_text(bar.text), inside, html_text(bar.text));
}

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

// The drawing of a scatter, in a box of 1000 x 440.
class Drawing {
 public:
  explicit Drawing(const Scatter& chart) : chart_(chart) {
    for (const ChartPoint& point : chart.points) {
      x_most_ = std::max({x_most_, point.x, point.high});
      y_most_ = std::max({y_most_, point.y, chart.y_limit});
    }
    x_most_ *= 1.05;
    y_most_ *= 1.08;
  }

  std::string svg() {
    axes();
    if (chart_.y_limit > 0) {
      text_ += fmt::format("<line class=\"lim\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                           kLeft, kRight, y(chart_.y_limit), y(chart_.y_limit));
      text_ += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kRight,
                           y(chart_.y_limit) - 5, html_text(chart_.limit_name));
    }
    for (const ChartPoint& point : chart_.points) {
      add(point);
    }
    return fmt::format("<svg viewBox=\"0 0 1000 440\" role=\"img\" aria-label=\"{}\">{}</svg>",
                       html_text(chart_.title), text_);
  }

 private:
  static constexpr double kLeft = 70, kRight = 980, kTop = 16, kBottom = 390;
  [[nodiscard]] double x(double value) const {
    return kLeft + (kRight - kLeft) * value / std::max(x_most_, 1e-12);
  }
  [[nodiscard]] double y(double value) const {
    return kBottom - (kBottom - kTop) * value / std::max(y_most_, 1e-12);
  }

  void axes() {
    const double x_tick = tick_of(x_most_);
    const double y_tick = tick_of(y_most_);
    for (int i = 0; i * x_tick <= x_most_; ++i) {
      text_ += fmt::format(
          "<line class=\"a\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
          "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>",
          x(i * x_tick), kTop, kBottom, kBottom + 17, i * x_tick);
    }
    for (int i = 0; i * y_tick <= y_most_; ++i) {
      text_ += fmt::format(
          "<line class=\"a\" x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>",
          y(i * y_tick), kLeft, kRight, kLeft - 6, y(i * y_tick) + 4, i * y_tick);
    }
    text_ += fmt::format("<text x=\"{}\" y=\"432\" text-anchor=\"middle\">{}</text>",
                         (kLeft + kRight) / 2, html_text(chart_.x_name));
    text_ += fmt::format(
        "<text x=\"16\" y=\"{}\" transform=\"rotate(-90 16 {})\" "
        "text-anchor=\"middle\">{}</text>",
        (kTop + kBottom) / 2, (kTop + kBottom) / 2, html_text(chart_.y_name));
  }

  void add(const ChartPoint& point) {
    const char* colour = point.marked ? "#228833" : point.faint ? "#999999" : "#4477aa";
    if (point.high > point.low) {
      text_ += fmt::format(
          "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" "
          "stroke=\"{}\" stroke-opacity=\".45\"/>",
          x(point.low), x(point.high), y(point.y), y(point.y), colour);
    }
    text_ += fmt::format(
        "<circle tabindex=\"0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\">"
        "<title>{}</title></circle>",
        x(point.x), y(point.y), point.marked ? 7 : 5, colour,
        html_text(point.name + ": " + point.text));
    if (point.marked) {
      text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x(point.x) + 10,
                           y(point.y) + 4, html_text(point.name));
    }
  }

  const Scatter& chart_;
  double x_most_ = 0, y_most_ = 0;
  std::string text_;
};

}  // namespace

std::string html_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

Page::Page(std::string title) : title_(std::move(title)) {}

void Page::heading(const std::string& text) {
  body_ += "<h2>" + html_text(text) + "</h2>\n";
}

void Page::text(const std::string& paragraph) {
  body_ += "<p>" + html_text(paragraph) + "</p>\n";
}

void Page::table(const Table& table) {
  const auto row = [&](const std::vector<std::string>& cells, const char* tag) {
    std::string line = "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      line += fmt::format("<{0}{1}>{2}</{0}>", tag, i < table.text_columns ? " class=\"t\"" : "",
                          html_text(cells[i]));
    }
    return line + "</tr>\n";
  };
  body_ += "<div class=\"wide\"><table>\n" + row(table.head, "th");
  for (const auto& cells : table.rows) {
    body_ += row(cells, "td");
  }
  body_ += "</table></div>\n";
}

void Page::bars(const BarChart& chart) {
  double most = chart.limit;
  for (const Bar& bar : chart.bars) {
    most = std::max({most, total(bar), bar.high});
  }
  if (most <= 0) {
    return;
  }
  const std::vector<std::string> names = part_names(chart);
  heading(chart.title);
  body_ += key_of(names);
  if (chart.limit > 0) {
    text("The line: " + chart.limit_name);
  }
  body_ += "<div class=\"bars\">\n";
  for (const Bar& bar : chart.bars) {
    body_ += bar_of(bar, names, most, chart.limit);
  }
  body_ += "</div>\n";
}

void Page::scatter(const Scatter& chart) {
  if (chart.points.empty()) {
    return;
  }
  heading(chart.title);
  body_ += "<div class=\"wide\">" + Drawing(chart).svg() + "</div>\n";
}

std::string Page::html() const {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body><h1>{0}</h1>\n{2}</body></html>\n",
      html_text(title_), kStyle, body_);
}

void write_page(const std::string& path, const Page& page) {
  write_file_atomically(path, page.html());
}

}  // namespace trireme::tools
