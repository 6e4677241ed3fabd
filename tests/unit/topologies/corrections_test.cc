// The networks' constants are times and shares that can be, and say where they come from.
#include "topologies/corrections.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace trireme::topologies {
namespace {

nlohmann::json networks() {
  std::ifstream file(TRIREME_SOURCE_DIR "/topologies/networks.json");
  return nlohmann::json::parse(file);
}

template <typename Fit>
void expect_physical(const nlohmann::json& entries) {
  std::map<std::string, CorrectionPrior> priors;
  for (const CorrectionPrior& prior : corrections_of(Fit{})) {
    priors[std::string(prior.name)] = prior;
  }
  for (const auto& [name, entry] : entries.items()) {
    for (const auto& [key, json] : entry.items()) {
      if (priors.contains(key)) {
        const double value = json;
        EXPECT_GT(value, 0) << name << " " << key;
        EXPECT_LT(value, 0.98 * priors[key].high)
            << name << " " << key << " is on its bound, or no share of a line";
      }
    }
    const nlohmann::json errors = entry.value("standard_errors", nlohmann::json::object());
    for (const auto& [key, json] : errors.items()) {
      const double error = json;
      EXPECT_TRUE(priors.contains(key) && entry.contains(key)) << name << " " << key;
      EXPECT_GT(error, 0) << name << " " << key;
      EXPECT_LE(error, priors[key].width) << name << " " << key;
    }
    // A number is another entry's only by naming it.
    const std::string source = entry.at("source");
    EXPECT_EQ(source.find("carried"), std::string::npos) << name << ": " << source;
  }
}

TEST(Corrections, NoTimeIsNegativeNoShareAboveOneNoneOnItsBound) {
  const nlohmann::json file = networks();
  expect_physical<FabricFit>(file.at("fabrics"));
  expect_physical<NetworkFit>(file.at("networks"));
}

TEST(Corrections, WhatIsCarriedFromAnotherIsItsNumber) {
  EXPECT_EQ(network_fit("RoCE 400G").ramp_mib, network_fit("RoCE 100G").ramp_mib);
  EXPECT_EQ(network_fit("RoCE 400G").latency_us, network_fit("RoCE 100G").latency_us);
  EXPECT_EQ(network_fit("EFA v4").latency_us, network_fit("EFA v3").latency_us);
  EXPECT_LT(network_fit("EFA v3").latency_us, network_fit("EFA v2").latency_us);
}

}  // namespace
}  // namespace trireme::topologies
