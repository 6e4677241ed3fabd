#include "tools/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/files.h"
#include "tools/page_plot.h"

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
  return colour_at(static_cast<std::size_t>(at));
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

}  // namespace

const char* colour_at(std::size_t at) {
  return kColours[at % kColours.size()];
}

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
  body_ += "<div class=\"wide\">" + scatter_svg(chart) + "</div>\n";
}

void Page::lines(const LineChart& chart) {
  std::vector<std::string> names;
  for (const Line& line : chart.lines) {
    names.push_back(line.name);
  }
  heading(chart.title);
  body_ += key_of(names);
  body_ += "<div class=\"wide\">" + lines_svg(chart) + "</div>\n";
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
