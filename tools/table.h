// Tables for people: aligned columns, a rule under the head, and nothing else.
#pragma once

#include <string>
#include <vector>

#include "tools/program.h"

namespace trireme::tools {

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::size_t text_columns = 1;  // the first so many are left-aligned, the others (numbers) right
};

void print_table(const Console& console, const Table& table);
// A heading above a table or a paragraph; bold on a terminal.
void print_heading(const Console& console, const std::string& text);
// "1,234,567"
std::string grouped(double number);
// "3.21 s", "812 ms", "45.1 us"
std::string duration_text(double seconds);
// Of a run, whose parts last minutes to days: "45 s", "20 min", "6 h", "3.2 days".
std::string span_text(double seconds);
// "8.0B", "405.9B", "124.4M": a parameter count
std::string count_text(double count);

}  // namespace trireme::tools
