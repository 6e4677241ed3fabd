// Drawings over two axes, as SVG texts: what Page::scatter and Page::lines put into a page.
#pragma once

#include <string>

#include "tools/page.h"

namespace trireme::tools {

std::string scatter_svg(const Scatter& chart);
std::string lines_svg(const LineChart& chart);

}  // namespace trireme::tools
