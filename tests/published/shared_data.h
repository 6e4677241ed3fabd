// Where measurements from elsewhere lie, which are no part of this project.
#pragma once

#include <string>

namespace trireme::published {

// From TRIREME_SHARED_DATA or beside the source; empty when it holds no tables of nccl-tests.
std::string shared_data_folder();
// Its folder of published rows, whether it is there or not.
std::string published_folder();

}  // namespace trireme::published
