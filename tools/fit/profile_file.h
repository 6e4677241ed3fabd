// Puts fitted constants back into the profile's file and leaves everything else in it (sources,
// notes, measured tables) as it stands.
#pragma once

#include <string>

#include "topologies/profile.h"

namespace trireme::tools {

void write_fitted(const std::string& from, const std::string& to,
                  const topologies::Profile& profile);

}  // namespace trireme::tools
