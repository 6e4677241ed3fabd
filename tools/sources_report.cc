// Where an estimate's numbers come from: the profile, another card's profile, or the datasheet.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/calibrate/machine.h"
#include "tools/report.h"

namespace trireme::tools {

Json sources_json(const planner::Job& job) {
  const planner::ProfileSources sources = planner::profile_sources(job);
  Json quantities = Json::array();
  for (const planner::QuantitySource& one : sources.quantities) {
    quantities.push_back({{"quantity", one.quantity},
                          {"from", std::string(planner::to_string(one.kind))},
                          {"source", one.source}});
  }
  return {{"profile", sources.profile},
          {"calibrated", sources.calibrated},
          {"transferred", sources.transferred},
          {"differs", sources.differs},
          {"quantities", quantities}};
}

// One line without a calibration; with one, what came from where.
void print_sources(const Console& console, const planner::Job& job) {
  const planner::ProfileSources sources = planner::profile_sources(job);
  using Kind = planner::QuantitySource::Kind;
  std::string text;
  for (const Kind kind : {Kind::kMeasured, Kind::kTransferred, Kind::kFitted, Kind::kDatasheet}) {
    std::string names;
    for (const planner::QuantitySource& one : sources.quantities) {
      if (one.kind == kind) {
        names += (names.empty() ? "" : ", ") + one.quantity;
      }
    }
    if (!names.empty()) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", planner::to_string(kind), names);
    }
  }
  fmt::print(console.out, "profile {}: {}\n", sources.profile, text);
  if (sources.transferred) {
    std::string fields;
    for (const std::string& field : sources.differs) {
      fields += (fields.empty() ? "" : "; ") + field;
    }
    fmt::print(console.out,
               "the profile is of another machine and was scaled by the datasheets ({})\n", fields);
  }
}

}  // namespace trireme::tools
