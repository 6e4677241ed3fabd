#include "tools/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::tools {
namespace {

// Columns as a terminal shows them: continuation bytes of UTF-8 take none.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string padded(const std::string& cell, std::size_t width, bool left) {
  const std::string space(width - std::min(width, width_of(cell)), ' ');
  return left ? cell + space : space + cell;
}

std::string line_of(const Table& table, const std::vector<std::string>& cells,
                    const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += (i == 0 ? "" : "  ") + padded(cells[i], widths[i], i < table.text_columns);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

void print_table(const Console& console, const Table& table) {
  std::vector<std::size_t> widths(table.head.size(), 0);
  const auto widen = [&](const std::vector<std::string>& cells) {
    widths.resize(std::max(widths.size(), cells.size()), 0);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(cells[i]));
    }
  };
  widen(table.head);
  std::for_each(table.rows.begin(), table.rows.end(), widen);
  if (!table.head.empty()) {
    const std::string head = line_of(table, table.head, widths);
    fmt::print(console.out, fmt::runtime(console.colour ? "\x1b[1m{}\x1b[0m\n" : "{}\n"), head);
    std::size_t total = 2 * (widths.size() - 1);
    for (const std::size_t width : widths) {
      total += width;
    }
    fmt::print(console.out, "{:-<{}}\n", "", total);
  }
  for (const auto& row : table.rows) {
    fmt::print(console.out, "{}\n", line_of(table, row, widths));
  }
}

void print_heading(const Console& console, const std::string& text) {
  fmt::print(console.out, fmt::runtime(console.colour ? "\x1b[1m{}\x1b[0m\n" : "{}\n"), text);
}

std::string grouped(double number) {
  std::string digits = fmt::format("{:.0f}", std::abs(number));
  for (std::size_t i = digits.size(); i > 3; i -= 3) {
    digits.insert(i - 3, ",");
  }
  return fmt::format("{}{}", number < 0 ? "-" : "", digits);
}

std::string duration_text(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) {
    return "0";
  }
  return size >= 1      ? fmt::format("{:.3f} s", seconds)
         : size >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3)
                        : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string span_text(double seconds) {
  return seconds >= 2 * 86400  ? fmt::format("{:.1f} days", seconds / 86400)
         : seconds >= 2 * 3600 ? fmt::format("{:.3g} h", seconds / 3600)
         : seconds >= 120      ? fmt::format("{:.3g} min", seconds / 60)
                               : fmt::format("{:.3g} s", seconds);
}

std::string count_text(double count) {
  return count >= 1e12  ? fmt::format("{:.2f}T", count / 1e12)
         : count >= 1e9 ? fmt::format("{:.1f}B", count / 1e9)
         : count >= 1e6 ? fmt::format("{:.1f}M", count / 1e6)
                        : fmt::format("{:.0f}", count);
}

}  // namespace trireme::tools
