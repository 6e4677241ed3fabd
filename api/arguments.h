// Options as the words of a command line, so that a call of the library and a line of the program
// mean the same.
#pragma once

#include <string>
#include <vector>

#include "trireme/options.h"

namespace trireme::api {

using Words = std::vector<std::string>;

void add(Words& words, const std::string& name, const std::string& value);  // nothing when empty
void add(Words& words, const std::string& name, const Count& value);
void add_each(Words& words, const std::string& name, const std::vector<std::string>& values);
void add_flag(Words& words, const std::string& name, bool value);
void add(Words& words, const Job& job);  // job.more last
void add(Words& words, const Layout& layout);

}  // namespace trireme::api
