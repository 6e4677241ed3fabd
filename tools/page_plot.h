// Drawings over two axes, as SVG texts: what scatter, lines and areas of a Page put into a page.
#pragma once

#include <string>

#include "tools/page.h"

namespace trireme::tools {

std::string scatter_svg(const Scatter& chart);
std::string lines_svg(const LineChart& chart);
std::string areas_svg(const AreaChart& chart);

}  // namespace trireme::tools
