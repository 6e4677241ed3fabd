// Names of people's files and models in exported files: they stay inside their quotes or comments,
// and the readers of each syntax see what was meant.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/launch/read_launch.h"
#include "tests/unit/tools/export_run.h"

namespace trireme::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHostile[] = {
    "line\nbreak: x\n[model]\ntouch PLANTED\n#",
    "\"; touch PLANTED; \"",
    "'; touch PLANTED; '",
    "$(touch PLANTED)",
    "`touch PLANTED`",
    "# -*- coding: utf-7 -*-",
    "\"\"\"\n'''\ntouch PLANTED",
    "tab\tbell\a escape\x1b[31m return\rtouch PLANTED",
    "\xc2\x85 \xe2\x80\xa8touch PLANTED",
    "back\\slash \\\n continued",
    "*alias &anchor !tag %directive {flow: [",
};

struct HostileFormat {
  const char* name;
  const char* ending;
  const char* framework;
  const char* options;
  // Reads the file named by its first argument; exit code 0 when the syntax holds.
  const char* reader;
};
constexpr HostileFormat kFormats[] = {
    {"megatron", "sh", "megatron", "--layout fsdp8.mb1.zero1", "bash -n \"$1\""},
    {"megatron", "slurm.sh", "megatron",
     "--layout fsdp8.mb1.zero1 --launcher slurm --form training", "bash -n \"$1\""},
    {"megatron-bridge", "py", "megatron", "--layout fsdp8.mb1.zero1",
     "python3 -c 'import ast, sys; ast.parse(open(sys.argv[1], \"rb\").read())' \"$1\""},
    {"torchtitan", "toml", "fsdp2", "--layout fsdp8.mb1 --flavor llama3/8B --form training",
     "python3 -c 'import tomllib, sys; t = tomllib.load(open(sys.argv[1], \"rb\")); "
     "assert t[\"model\"][\"flavor\"] == \"8B\"' \"$1\""},
    {"deepspeed", "json", "deepspeed", "--layout fsdp8.mb1",
     "python3 -c 'import json, sys; json.load(open(sys.argv[1]))' \"$1\""},
    {"accelerate", "yaml", "fsdp2", "--layout fsdp8.mb1",
     "python3 -c 'import yaml, sys; assert yaml.safe_load(open(sys.argv[1], "
     "encoding=\"utf-8\"))[\"num_processes\"] == 8' \"$1\""},
};

bool succeeds(const std::string& script, const std::string& file) {
  const std::string runner = testing::TempDir() + "hostile_reader.sh";
  std::ofstream(runner) << script << "\n";
  return std::system(("bash " + runner + " '" + file + "' >/dev/null 2>&1").c_str()) == 0;
}

bool has_reader(const std::string& reader) {
  return succeeds(reader.starts_with("bash")                    ? "true"
                  : reader.find("tomllib") != std::string::npos ? "python3 -c 'import tomllib'"
                  : reader.find("yaml") != std::string::npos    ? "python3 -c 'import yaml'"
                                                                : "python3 -c 'import json'",
                  "");
}

// A model file of llama-3.1-8b's dimensions under another name.
std::string model_named(const std::string& name) {
  nlohmann::json model = nlohmann::json::parse(R"({"schema": "trireme.transformer/1",
      "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 14336,
      "vocab": 128256, "max_sequence": 131072, "norm": "rms_norm", "position": "rotary"})");
  model["name"] = name;
  std::string path = testing::TempDir() + "hostile_model.json";
  std::ofstream(path) << model.dump();
  return path;
}

TEST(ExportHostileNames, StayInTheirCommentsInEveryFormat) {
  for (const HostileFormat& format : kFormats) {
    const bool reads = has_reader(format.reader);
    for (const char* name : kHostile) {
      SCOPED_TRACE(std::string(format.name) + " " + name);
      const std::string path = testing::TempDir() + "hostile." + format.ending;
      const Exported wrote = run_words(
          std::string("export --cluster dgx-h100x1 --seq 4096 --global-batch 16 --format ") +
              format.name + " --framework " + format.framework + " " + format.options,
          {"--model", model_named(name), "-o", path});
      ASSERT_EQ(wrote.code, 0) << wrote.err;
      std::ifstream stream(path);
      bool in_heading = true;
      for (std::string line; std::getline(stream, line);) {
        in_heading = in_heading && (line.starts_with("#") || line.empty());
        if (!in_heading) {
          EXPECT_FALSE(line.starts_with("touch") || line.starts_with("break")) << line;
        }
        EXPECT_EQ(line.find('\r'), std::string::npos) << line;
        EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
      }
      EXPECT_EQ(wrote.err.find('\x1b'), std::string::npos) << wrote.err;
      if (reads) {
        EXPECT_TRUE(succeeds(format.reader, path));
      }
    }
    if (!reads) {
      std::printf("  %s: no reader of its syntax is installed; not read\n", format.name);
    }
  }
}

// The script is run with a torchrun that prints its words: nothing else may happen.
TEST(ExportHostileNames, AScriptRunsNothingOfAName) {
  const fs::path folder = fs::path(testing::TempDir()) / "hostile_run";
  fs::create_directories(folder / "bin");
  std::ofstream(folder / "bin" / "torchrun") << "#!/bin/sh\nprintf '%s\\n' \"$@\" > words\n";
  fs::permissions(folder / "bin" / "torchrun", fs::perms::owner_all);
  for (const char* name : kHostile) {
    const Exported wrote = run_words(
        "export --cluster dgx-h100x1 --seq 4096 --global-batch 16 --framework megatron --layout "
        "fsdp8.mb1.zero1",
        {"--model", model_named(name), "-o", (folder / "run.sh").string()});
    ASSERT_EQ(wrote.code, 0) << wrote.err;
    const std::string run = "cd '" + folder.string() + "' && PATH=\"$PWD/bin:$PATH\" bash run.sh";
    ASSERT_EQ(std::system(run.c_str()), 0) << name;
    EXPECT_FALSE(fs::exists(folder / "PLANTED")) << name;
    std::ifstream words(folder / "words");
    const std::string all{std::istreambuf_iterator<char>(words), {}};
    EXPECT_NE(all.find("pretrain_gpt.py\n--num-layers\n32\n"), std::string::npos) << all;
  }
  fs::remove_all(folder);
}

TEST(ExportHostileNames, TheCommandQuotesTheNameOfTheFile) {
  const std::string path = testing::TempDir() + "a b$(touch PLANTED).sh";
  const Exported wrote = run_words(
      "export --model llama-3.1-8b --cluster dgx-h100x1 --seq 4096 --global-batch 16 --framework "
      "megatron --sharding optimizer",
      {"-o", path});
  ASSERT_EQ(wrote.code, 0) << wrote.err;
  EXPECT_NE(wrote.err.find("bash '" + path + "'"), std::string::npos) << wrote.err;
  fs::remove(path);
}

TEST(ExportHostileNames, AFlavorStaysInItsQuotes) {
  if (!planner::reads_format(planner::LaunchFormat::kTorchtitan)) {
    GTEST_SKIP() << "built without toml++";
  }
  const std::string path = testing::TempDir() + "flavor.toml";
  const std::string flavor = "llama3/8B\"\n[training]\nsteps = 7 #";
  const Exported wrote = run_words(
      "export --model llama-3.1-8b --cluster dgx-h100x1 --seq 4096 --global-batch 16 --framework "
      "fsdp2 --sharding full",
      {"--flavor", flavor, "-o", path});
  ASSERT_EQ(wrote.code, 0) << wrote.err;
  const planner::LaunchConfig config =
      planner::read_launch_file(path, planner::LaunchFormat::kTorchtitan);
  EXPECT_EQ(planner::text_setting(config, "model.flavor"), flavor.substr(7));
  EXPECT_EQ(planner::text_setting(config, "training.steps"), "50");
}

}  // namespace
}  // namespace trireme::tools
