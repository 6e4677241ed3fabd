// The loop of `tune` around a launcher that stands in for the frameworks: what it starts, keeps and
// gives up.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/unit/tools/command.h"
#include "tools/child_process.h"
#include "tools/tune_choice.h"

namespace trireme::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(ExpectedGain, IsWhatAnIntervalPromises) {
  // Certain: the difference, or nothing.
  EXPECT_NEAR(expected_gain(1.0, 0.9, 0.9, 0.9), 0.1, 1e-9);
  EXPECT_NEAR(expected_gain(1.0, 1.1, 1.1, 1.1), 0, 1e-9);
  // As fast as the best, ln(high / low) = 0.32898: a spread of 0.1, of which a normal promises 0.1
  // / sqrt(2 pi).
  const double gain = expected_gain(1.0, 1.0, std::exp(-0.16449), std::exp(0.16449));
  EXPECT_NEAR(gain, 0.1 / std::sqrt(2 * 3.14159265), 0.004);
  // The less is known, the more is promised.
  EXPECT_LT(expected_gain(1.0, 1.2, 1.15, 1.25), expected_gain(1.0, 1.2, 0.9, 1.6));
}

// A folder of its own with a launcher: what it prints depends on the layout.
class Tune : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("tune_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream stream(folder_ / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // With `launcher.sh LAYOUT` as what starts a run.
  [[nodiscard]] Answer tune(const std::vector<std::string>& more,
                            const std::string& model = "llama-3.2-1b") const {
    std::vector<std::string> words = {"tune",
                                      "--model",
                                      model,
                                      "--cluster",
                                      "hgx-h200x1",
                                      "--gpus",
                                      "2",
                                      "--framework",
                                      "megatron",
                                      "--seq",
                                      "2048",
                                      "--global-batch",
                                      "8",
                                      "--threads",
                                      "1",
                                      "--submit",
                                      "sh " + (folder_ / "launcher.sh").string() + " {layout}",
                                      "--state",
                                      (folder_ / "state").string(),
                                      "-o",
                                      (folder_ / "tune.json").string(),
                                      "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
  [[nodiscard]] json result() const { return json::parse(text("tune.json")); }

  fs::path folder_;
};

constexpr const char* kSteps =
    "for i in 1 2 3 4 5; do echo \" iteration $i/5 | elapsed time per iteration (ms): $ms |\"; "
    "done\n";

TEST_F(Tune, FindsTheFastestAndTakesOutOfMemoryAsAnAnswer) {
  // Tensor parallelism is far slower here than it is thought to be, pipelines run out of memory.
  write("launcher.sh",
        std::string("case $1 in\n tp2*) ms=900;;\n pp2*) echo 'torch.OutOfMemoryError: "
                    "CUDA out of memory'; exit 1;;\n *) ms=100;;\nesac\n") +
            kSteps);
  const Answer found = tune({"--gain", "0.5%"});
  ASSERT_EQ(found.code, kDone) << found.err;
  const json tuned = result();
  EXPECT_EQ(tuned.at("schema"), "trireme.tune/1");
  EXPECT_DOUBLE_EQ(tuned.at("best_measured_seconds").get<double>(), 0.1);
  EXPECT_EQ(tuned.at("best").at("layout").at("tp"), 1);
  EXPECT_FALSE(tuned.at("stopped_because").get<std::string>().empty());
  std::set<std::string> layouts;
  for (const json& run : tuned.at("runs")) {
    EXPECT_TRUE(layouts.insert(run.at("layout").get<std::string>()).second) << run;
    const bool pipeline = run.at("layout").get<std::string>().starts_with("pp2");
    EXPECT_EQ(run.at("outcome"), pipeline ? "oom" : "ok");
  }
  EXPECT_TRUE(fs::exists(tuned.at("launch_file").get<std::string>()));
  EXPECT_TRUE(fs::exists(tuned.at("profile").get<std::string>()));
}

// On one GPU all layouts have the same degrees: micro-batches and recompute are what there is.
TEST_F(Tune, SameDegreesHaveMoreThanOneLayout) {
  write("launcher.sh", std::string("case $1 in\n *mb2*) ms=100;;\n *) ms=110;;\nesac\n") + kSteps);
  const std::vector<std::string> one = {"--tp", "1",      "--pp",  "1",      "--dp",
                                        "2",    "--gain", "0.01%", "--runs", "6"};
  const Answer found = tune(one);
  ASSERT_EQ(found.code, kDone) << found.err;
  const json tuned = result();
  std::set<std::string> layouts;
  for (const json& run : tuned.at("runs")) {
    layouts.insert(run.at("layout").get<std::string>());
  }
  EXPECT_GE(layouts.size(), 3U);
}

// Three layouts were exported, refused and listed as failed runs, with exit code 1.
TEST_F(Tune, AFlavorThatNamesNoModelIsRefusedAtOnce) {
  const Answer refused =
      run_command({"tune",
                   "--model",
                   std::string(TRIREME_SOURCE_DIR) + "/tests/gpu/models/llama-1b-untied.json",
                   "--cluster",
                   "hgx-h200x1",
                   "--gpus",
                   "2",
                   "--framework",
                   "torchtitan",
                   "--flavor",
                   "1B",
                   "--seq",
                   "2048",
                   "--global-batch",
                   "8",
                   "--threads",
                   "1",
                   "--state",
                   (folder_ / "state").string(),
                   "-q"});
  EXPECT_EQ(refused.code, kWrongInput);
  EXPECT_TRUE(refused.err.starts_with("trireme: --flavor: '1B' does not say")) << refused.err;
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
}

TEST_F(Tune, GoesOnWhereItWasKilled) {
  write("launcher.sh",
        std::string("echo $1 >>") + (folder_ / "started").string() + "\nms=100\n" + kSteps);
  ASSERT_EQ(tune({"--runs", "1"}).code, kDone);
  ASSERT_EQ(result().at("runs").size(), 1U);
  // A run that was cut off left its files, and no line in the state.
  write("state/002.plan.json", "half");
  ASSERT_EQ(tune({"--runs", "2", "--gain", "0%"}).code, kDone);
  EXPECT_EQ(result().at("runs").size(), 2U);
  const std::string started = text("started");
  EXPECT_EQ(std::count(started.begin(), started.end(), '\n'), 2);
  // Nothing is left to do.
  ASSERT_EQ(tune({"--runs", "2"}).code, kDone);
  EXPECT_EQ(text("started"), started);
  const Answer other = tune({"--runs", "2"}, "gpt3-1.3b");
  EXPECT_EQ(other.code, kWrongInput);
  EXPECT_NE(other.err.find("--state"), std::string::npos) << other.err;
}

// Neither gone nor waiting for a parent that never asks.
bool is_running(const std::string& process) {
  std::ifstream stream("/proc/" + process + "/stat");
  std::string number, name, state;
  stream >> number >> name >> state;
  return !state.empty() && state != "Z";
}

TEST_F(Tune, EndsARunThatHangsWithAllItsProcesses) {
  write("launcher.sh", "sh -c \"trap '' TERM; sleep 300; sleep 300\" & echo $! >" +
                           (folder_ / "hanging").string() + "\nwait\n");
  const Answer found = tune({"--runs", "1", "--each", "0.5s"});
  EXPECT_EQ(found.code, kAnswerIsNo) << found.err;
  EXPECT_EQ(result().at("runs").at(0).at("outcome"), "timeout");
  EXPECT_TRUE(result().at("best").is_null());
  std::string process = text("hanging");
  process.erase(process.find_last_not_of('\n') + 1);
  ASSERT_FALSE(process.empty());
  for (int tries = 0; tries < 500 && is_running(process); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(is_running(process));
}

// accelerate's programs wait for each other for half a minute when they leave.
TEST_F(Tune, ARunThatHangsAfterItsStepsWasMeasured) {
  write("launcher.sh", std::string("ms=100\n") + kSteps + "sleep 300\n");
  const Answer found = tune({"--runs", "1", "--steps", "5", "--each", "2s"});
  EXPECT_EQ(found.code, kDone) << found.err;
  EXPECT_EQ(result().at("runs").at(0).at("outcome"), "ok");
  EXPECT_DOUBLE_EQ(result().at("runs").at(0).at("measured_seconds").get<double>(), 0.1);
}

TEST_F(Tune, GivesUpWhereNothingRuns) {
  write("launcher.sh", "echo 'ModuleNotFoundError: No module named torch'; exit 1\n");
  const Answer found = tune({});
  EXPECT_EQ(found.code, kAnswerIsNo) << found.err;
  const json tuned = result();
  EXPECT_LE(tuned.at("runs").size(), 3U);
  EXPECT_EQ(tuned.at("runs").at(0).at("outcome"), "failed");
  EXPECT_NE(tuned.at("stopped_because").get<std::string>().find("ModuleNotFoundError"),
            std::string::npos);
}

TEST(ChildProcess, SaysHowItEnded) {
  const std::string log = testing::TempDir() + "/child.log";
  EXPECT_EQ(run_command("echo out; echo err >&2; exit 3", log, 60).exit_code, 3);
  std::ifstream stream(log);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "out\nerr\n");
  EXPECT_EQ(run_command("kill -9 $$", log, 60).exit_code, 128 + SIGKILL);
  std::remove(log.c_str());
}

}  // namespace
}  // namespace trireme::tools
