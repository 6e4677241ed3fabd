#include "tools/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/embedded_file.h"
#include "core/files.h"
#include "tools/page_plot.h"

namespace trireme::tools {
namespace embedded {
std::span<const core::EmbeddedFile> page_files();
}  // namespace embedded
namespace {

constexpr std::array<const char*, 10> kColours = {"#4477aa", "#228833", "#ccbb44", "#ee6677",
                                                  "#66ccee", "#aa3377", "#999933", "#882255",
                                                  "#117733", "#777777"};

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

// A colour for each name: as given, else the usual ones.
std::vector<std::string> colours_of(const std::vector<std::string>& names,
                                    const std::vector<std::string>& given) {
  std::vector<std::string> colours = given;
  for (std::size_t i = colours.size(); i < names.size(); ++i) {
    colours.emplace_back(colour_at(i));
  }
  return colours;
}

std::string key_of(const std::vector<std::string>& names,
                   const std::vector<std::string>& given = {}) {
  const std::vector<std::string> colours = colours_of(names, given);
  std::string key;
  for (std::size_t i = 0; i < names.size(); ++i) {
    key += fmt::format("<span><b style=\"background:{}\"></b>{}</span>", colours[i],
                       html_text(names[i]));
  }
  return names.size() > 1 ? "<p class=\"key\">" + key + "</p>\n" : "";
}

std::string bar_of(const Bar& bar, const std::vector<std::string>& names,
                   const std::vector<std::string>& colours, double most, double limit) {
  std::string inside;
  double at = 0;
  for (const BarPart& part : bar.parts) {
    const auto name = std::find(names.begin(), names.end(), part.name) - names.begin();
    inside += fmt::format(
        "<i style=\"left:{:.2f}%;width:{:.2f}%;background:{}\" title=\"{}: {:.4g}\"></i>",
        100 * at / most, 100 * part.value / most, colours[static_cast<std::size_t>(name)],
        html_text(part.name), part.value);
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
      "<div class=\"n\"{}>{}</div><div class=\"bar\" tabindex=\"0\" aria-label=\"{}: {}\">{}</div>"
      "<div class=\"v\">{}</div>\n",
      bar.id.empty() ? "" : fmt::format(" id=\"{}\"", html_text(bar.id)), html_text(bar.name),
      html_text(bar.name), html_text(bar.text), inside, html_text(bar.text));
}

}  // namespace

std::string_view page_file(std::string_view name) {
  const auto files = embedded::page_files();
  const auto found = std::ranges::find(files, name, &core::EmbeddedFile::name);
  TRIREME_CHECK(found != files.end());
  return found->content;
}

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

std::string script_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || c == '<' || c == '>' || c == '&' || c == '"' || c == '\\') {
      safe += fmt::format("\\u{:04x}", code);
    } else {
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
  const std::vector<std::string> colours = colours_of(names, chart.colours);
  body_ += key_of(names, colours);
  if (chart.limit > 0) {
    text("The line: " + chart.limit_name);
  }
  body_ += "<div class=\"bars\">\n";
  for (const Bar& bar : chart.bars) {
    body_ += bar_of(bar, names, colours, most, chart.limit);
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
  if (chart.lines.empty()) {
    return;
  }
  std::vector<std::string> names;
  for (const Line& line : chart.lines) {
    names.push_back(line.name);
  }
  heading(chart.title);
  body_ += key_of(names);
  body_ += "<div class=\"wide\">" + lines_svg(chart) + "</div>\n";
}

void Page::areas(const AreaChart& chart) {
  if (chart.x.size() < 2) {
    return;
  }
  heading(chart.title);
  body_ += key_of(chart.names);
  body_ += "<div class=\"wide\">" + areas_svg(chart) + "</div>\n";
}

void Page::raw(const std::string& html) {
  body_ += html;
}

void Page::script(const std::string& name) {
  if (std::find(scripts_.begin(), scripts_.end(), name) == scripts_.end()) {
    scripts_.push_back(name);
  }
}

std::string Page::html() const {
  std::string scripts;
  for (const std::string& name : scripts_) {
    scripts += fmt::format("<script>\n{}</script>\n", page_file(name));
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body><h1>{0}</h1>\n{2}{3}</body></html>\n",
      html_text(title_), page_file("page"), body_, scripts);
}

void write_page(const std::string& path, const Page& page) {
  write_file_atomically(path, page.html());
}

}  // namespace trireme::tools
