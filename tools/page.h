// One self-contained page of a report: sections of tables and charts, dark and light, from 390 to
// 1,600 px, without script and without a request to anywhere.
#pragma once

#include <string>
#include <vector>

#include "tools/table.h"

namespace trireme::tools {

// A bar a row: its parts one after the other, and an interval over it.
struct BarPart {
  std::string name;
  double value = 0;
};
struct Bar {
  std::string name = {}, text = {};  // text: the value as people read it
  std::vector<BarPart> parts = {};
  double low = 0, high = 0;  // equal: no interval
};
struct BarChart {
  std::string title;
  std::vector<Bar> bars;
  double limit = 0;  // a line across, 0 = none
  std::string limit_name = {};
};

// Points over two axes; the marked one stands out.
struct ChartPoint {
  std::string name = {}, text = {};        // text: shown on hover
  double x = 0, y = 0, low = 0, high = 0;  // interval of x
  bool marked = false, faint = false;
};
struct Scatter {
  std::string title, x_name, y_name;
  std::vector<ChartPoint> points;
  double y_limit = 0;
  std::string limit_name = {};
};

// Curves over two axes, each with a band from low to high of y where a point has one.
struct Line {
  std::string name = {};
  std::vector<ChartPoint> points = {};  // low, high: of y; x and y above 0 on a logarithmic axis
  bool dashed = false;
};
struct LineMark {
  double x = 0;
  std::string name = {};
};
struct LineChart {
  std::string title, x_name, y_name;
  std::vector<Line> lines;
  std::vector<LineMark> marks = {};  // lines from top to bottom
  bool logarithmic = false;          // both axes
};

// Colours that stay apart, in light and in dark: `at` modulo ten.
const char* colour_at(std::size_t at);
// Text as it stands in HTML, also between double quotes.
std::string html_text(const std::string& text);

class Page {
 public:
  explicit Page(std::string title);
  void heading(const std::string& text);
  void text(const std::string& paragraph);
  void table(const Table& table);
  void bars(const BarChart& chart);
  void scatter(const Scatter& chart);
  void lines(const LineChart& chart);
  [[nodiscard]] std::string html() const;

 private:
  std::string title_, body_;
};

// Writes it to a temporary name and renames it. Throws Error.
void write_page(const std::string& path, const Page& page);

}  // namespace trireme::tools
