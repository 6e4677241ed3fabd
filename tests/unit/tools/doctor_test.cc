// What `doctor` says of machines that a test can make: none of CUDA, and a driver that answers as
// told.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/unit/tools/command.h"
#include "tools/machine_checks.h"

namespace trireme::tools {
namespace {

using Checks = std::map<std::string, MachineCheck>;

Checks by_name(const MachineLook& look) {
  Checks checks;
  for (const MachineCheck& check : check_machine(look)) {
    EXPECT_TRUE(checks.emplace(check.name, check).second) << check.name << " twice";
    EXPECT_FALSE(check.detail.empty()) << check.name;
    EXPECT_EQ(check.fix.empty(), check.state == CheckState::kOk) << check.name;
  }
  return checks;
}

TEST(Doctor, AMachineWithoutCudaIsToldWhatBringsIt) {
  const TestFolder folder;
  Checks checks = by_name({.libraries = folder.root(), .path = "", .profile = ""});
  for (const char* name :
       {"cuda_driver", "gpus", "cuda_runtime", "nccl", "cudnn", "torchrun", "srun"}) {
    EXPECT_EQ(checks.at(name).state, CheckState::kMissing) << name;
  }
  EXPECT_EQ(checks.at("profile").state, CheckState::kOk);  // no GPU that it could be wrong about
  EXPECT_FALSE(checks.contains("peer_access"));
}

TEST(Doctor, WhatTheDriverAnswersIsTold) {
  const TestFolder folder;
  for (const char* name : {"libcuda.so.1", "libcudart.so.13", "libnccl.so.2", "libcudnn.so.9"}) {
    std::filesystem::create_symlink(TRIREME_FAKE_CUDA, folder.path(name));
  }
  Checks checks = by_name({.libraries = folder.root(), .path = "", .profile = ""});
  EXPECT_EQ(checks.at("cuda_driver").detail, "supports CUDA 12.4");
  EXPECT_EQ(checks.at("gpus").detail, "2: Test GPU A (80.0 GiB), Test GPU B (80.0 GiB)");
  EXPECT_EQ(checks.at("peer_access").state, CheckState::kMissing);
  EXPECT_NE(checks.at("peer_access").detail.find("0-1 1-0"), std::string::npos);
  EXPECT_EQ(checks.at("cuda_driver_version").state, CheckState::kOld);
  EXPECT_EQ(checks.at("nccl").detail, "NCCL 2.18.3");
  EXPECT_EQ(checks.at("cudnn").state, CheckState::kOld);
  EXPECT_EQ(checks.at("profile").state,
            CheckState::kMissing);  // the shipped one never saw these GPUs
}

TEST(Doctor, ALauncherOnThePathIsFound) {
  const TestFolder folder;
  const std::string program = folder.file("torchrun", "#!/bin/sh\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  Checks checks = by_name(
      {.libraries = folder.root(), .path = "/no/such:" + folder.root().string(), .profile = ""});
  EXPECT_EQ(checks.at("torchrun").detail, program);
  EXPECT_EQ(checks.at("srun").state, CheckState::kMissing);
}

TEST(Doctor, TheCommandAnswersWithoutCuda) {
  const auto json = json_of({"doctor", "--json"});
  EXPECT_EQ(json["schema"], "trireme.doctor/1");
  for (const auto& check : json["checks"]) {
    EXPECT_TRUE(check["state"] == "ok" || check["state"] == "missing" || check["state"] == "old")
        << check;
    EXPECT_TRUE(check.contains("name") && check.contains("detail") && check.contains("fix"));
  }
  expect_one_line(run_words("doctor --calibration /no/such.json"), 2, "/no/such.json");
}

}  // namespace
}  // namespace trireme::tools
