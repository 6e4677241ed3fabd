// One self-contained page of a report: sections of tables and charts, dark and light, from 390 to
// 1,600 px, without a request to anywhere; only a drawing that moves brings a script.
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
  std::string id = {};       // where a point's link leads
};
struct BarChart {
  std::string title;
  std::vector<Bar> bars;
  double limit = 0;  // a line across, 0 = none
  std::string limit_name = {};
  std::vector<std::string> colours = {};  // of the parts in their order; empty: the usual ones
};

// Points over two axes; the marked one stands out.
struct ChartPoint {
  std::string name = {}, text = {};        // text: shown on hover
  double x = 0, y = 0, low = 0, high = 0;  // interval of x
  bool marked = false, faint = false;
  std::string link = {};  // id of a bar with more about it
};
struct Scatter {
  std::string title, x_name, y_name;
  std::vector<ChartPoint> points;
  double y_limit = 0;
  std::string limit_name = {};
  bool diagonal = false;  // a line where y is x
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

// Values on top of each other over x.
struct AreaChart {
  std::string title, x_name, y_name;
  std::vector<std::string> names;
  std::vector<double> x;                    // ascending
  std::vector<std::vector<double>> values;  // of each name, at each x
  double limit = 0;                         // a line across, 0 = none
  std::string limit_name = {};
  LineMark mark = {};  // without a name: none
};

// Colours that stay apart, in light and in dark: `at` modulo ten.
const char* colour_at(std::size_t at);
// Text as it stands in HTML, also between double quotes.
std::string html_text(const std::string& text);
// The same as part of a JSON text inside a script element.
std::string script_text(const std::string& text);
// A file beside page.css that the program brings: "serve", "page_timeline". Requires: it is there.
std::string_view page_file(std::string_view name);

class Page {
 public:
  explicit Page(std::string title);
  void heading(const std::string& text);
  void text(const std::string& paragraph);
  void table(const Table& table);
  void bars(const BarChart& chart);
  void scatter(const Scatter& chart);
  void lines(const LineChart& chart);
  void areas(const AreaChart& chart);
  // HTML as it is: the caller has escaped what others wrote.
  void raw(const std::string& html);
  // Adds one of the scripts beside page.css, once.
  void script(const std::string& name);
  [[nodiscard]] std::string html() const;
  // What stands below the title, to be put into a page that is there.
  [[nodiscard]] const std::string& body() const { return body_; }

 private:
  std::string title_, body_;
  std::vector<std::string> scripts_;
};

// Writes it to a temporary name and renames it. Throws Error.
void write_page(const std::string& path, const Page& page);

}  // namespace trireme::tools
