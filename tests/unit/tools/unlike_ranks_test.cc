// Ranks that a launcher started with unlike arguments or files: they crashed, hung until the
// time-out or trained wrongly. Every rank says which argument it is.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "runtime/sockets.h"
#include "tests/unit/tools/command.h"

namespace trireme::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRanks = 2;
using Options = std::map<std::string, std::string>;  // what has no value is a flag

constexpr const char* kModel = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 48,
  "max_position_embeddings": 64, "rms_norm_eps": ROUNDING, "rope_theta": 10000.0, "hidden_act": "silu",
  "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

std::string model_text(const std::string& rounding) {
  std::string text = kModel;
  return text.replace(text.find("ROUNDING"), 8, rounding);
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class UnlikeRanks : public testing::Test {
 protected:
  UnlikeRanks() {
    for (const char* host : {"a", "b"}) {
      fs::create_directories(path(host));
    }
    std::ofstream(path("a/model.json")) << model_text("1e-05");
    std::ofstream(path("b/model.json")) << model_text("1e-06");
    for (const auto& [name, token] : {std::pair{"a/tokens.bin", '\1'}, {"b/tokens.bin", '\2'}}) {
      std::ofstream file(path(name));
      for (int i = 0; i < 400; ++i) {
        file << token << '\0';
      }
    }
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }

  // A run's words with `unlike` in place of some; a value of "-" takes one away.
  [[nodiscard]] std::vector<std::string> words(const Options& unlike) const {
    Options options = {{"--backend", "cpu"},    {"--model", path("a/model.json")}, {"--seq", "16"},
                       {"--global-batch", "8"}, {"--layout", "fsdp2.mb1"},         {"--steps", "1"},
                       {"--timeout", "100"}};
    for (const auto& [name, value] : unlike) {
      options[name] = value;
    }
    std::vector<std::string> result = {"run", "-q"};
    for (const auto& [name, value] : options) {
      if (value == "-") {
        continue;
      }
      result.push_back(name);
      if (!value.empty()) {
        result.push_back(value);
      }
    }
    return result;
  }

  // A rank as torchrun starts it, on a host of its own.
  [[nodiscard]] pid_t start(std::size_t rank, int port, const Options& options) const {
    const pid_t child = ::fork();
    if (child != 0) {
      return child;
    }
    const std::map<std::string, std::string> variables = {
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(kRanks)},
        {"LOCAL_RANK", "0"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port)},
        {"NCCL_HOSTID", rank == 0 ? "host-a" : "host-b"}};
    for (const auto& [name, value] : variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    const Answer answer = run_command(words(options));
    std::ofstream(path(fmt::format("err{}", rank))) << answer.err;
    std::_Exit(answer.code);
  }

  [[nodiscard]] std::array<Answer, kRanks> run(const std::array<Options, kRanks>& options) const {
    const int port = runtime::listen_at({"127.0.0.1", 0}).port;
    std::array<pid_t, kRanks> processes{};
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      processes[rank] = start(rank, port, options[rank]);
    }
    std::array<Answer, kRanks> answers;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      int status = -1;
      EXPECT_EQ(::waitpid(processes[rank], &status, 0), processes[rank]);
      answers[rank].code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      answers[rank].err = text_of(path(fmt::format("err{}", rank)));
    }
    return answers;
  }

  // Both ranks end with one line that says `argument` and both values.
  void expect_named(const std::string& argument, const std::array<Options, kRanks>& options,
                    const std::array<std::string, kRanks>& values) const {
    for (const Answer& answer : run(options)) {
      SCOPED_TRACE(argument);
      expect_one_line(answer, 2,
                      fmt::format("{}: rank 0 on host-a has {}, rank 1 on host-b has {}; give "
                                  "every rank the same",
                                  argument, values[0], values[1]));
    }
  }

  TestFolder folder_;
};

struct Case {
  const char* argument;
  std::array<const char*, kRanks> given;  // "-": not at all, "": a flag
  std::array<const char*, kRanks> said;   // in the message
};
constexpr std::array kCases = {
    Case{"--precision", {"fp64", "fp32"}, {"fp64", "fp32"}},
    Case{"--precision", {"-", "bf16"}, {"fp32", "bf16"}},
    Case{"--seq", {"16", "32"}, {"16", "32"}},
    Case{"--global-batch", {"8", "4"}, {"8", "4"}},
    Case{"--framework", {"-", "fsdp2"}, {"trireme", "fsdp2"}},
    Case{"--layout", {"fsdp2.mb1", "dp2.mb1"}, {"fsdp2.mb1", "dp2.mb1"}},
    Case{"--set", {"-", "overlap_grad_reduce=off"}, {"none", "overlap_grad_reduce=off"}},
    Case{"--steps", {"1", "2"}, {"1", "2"}},
    Case{"--seed", {"-", "2"}, {"1", "2"}},
    Case{"--lr", {"-", "1e-3"}, {"0.0003", "0.001"}},
    Case{"--warmup", {"-", "5"}, {"0", "5"}},
    Case{"--betas", {"-", "0.9,0.99"}, {"0.9,0.95", "0.9,0.99"}},
    Case{"--weight-decay", {"0", "-"}, {"0", "0.1"}},
    Case{"--clip", {"-", "0.5"}, {"1", "0.5"}},
    Case{"--save", {"FOLDER", "-"}, {"one", "none"}},
    Case{"--save-every", {"1", "-"}, {"1", "0"}},
    Case{"--resume", {"-", "FOLDER"}, {"none", "one"}},
    Case{"--deterministic", {"-", ""}, {"no", "yes"}},
    Case{"--trace", {"FOLDER/trace.json", "-"}, {"one", "none"}},
};

TEST_F(UnlikeRanks, AlikeOnesTrain) {
  const std::string saved = path("saved");
  for (const Options& options : {Options{{"--save", saved}}, Options{{"--resume", saved}}}) {
    for (const Answer& answer : run({options, options})) {
      EXPECT_EQ(answer.code, 0) << answer.err;
    }
  }
}

TEST_F(UnlikeRanks, EachArgumentIsNamed) {
  for (const Case& row : kCases) {
    std::array<Options, kRanks> options;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      std::string value = row.given[rank];
      if (value.starts_with("FOLDER")) {
        value.replace(0, 6, folder_.root().string());
      }
      options[rank][row.argument] = value;
    }
    expect_named(row.argument, options, {row.said[0], row.said[1]});
  }
}

TEST_F(UnlikeRanks, FilesAreToldApartByTheirContent) {
  const std::array<std::string, 2> tokens{path("a/tokens.bin"), path("b/tokens.bin")};
  fs::copy_file(tokens[0], path("b/copy.bin"));
  const std::array<Answer, kRanks> copies =
      run({Options{{"--data", tokens[0]}}, Options{{"--data", path("b/copy.bin")}}});
  for (const Answer& answer : copies) {
    EXPECT_EQ(answer.code, 0) << answer.err;
  }
  for (const Answer& answer :
       run({Options{{"--data", tokens[0]}}, Options{{"--data", tokens[1]}}})) {
    expect_one_line(answer, 2, "--data: rank 0 on host-a has a file of 800 bytes, its first batch");
  }
  for (const Answer& answer : run({Options{{"--model", path("a/model.json")}},
                                   Options{{"--model", path("b/model.json")}}})) {
    expect_one_line(answer, 2, "the step program");
  }
}

// Each of these two waited for the other until the time-out.
TEST_F(UnlikeRanks, ARankThatCannotStartTellsTheOthersWhy) {
  for (const std::size_t culprit : {0U, 1U}) {
    std::array<Options, kRanks> options;
    options[culprit]["--layout"] = "fsdp3.mb1";
    const std::array<Answer, kRanks> answers = run(options);
    expect_one_line(answers[culprit], 2, "WORLD_SIZE");
    expect_one_line(answers[1 - culprit], 2,
                    fmt::format("rank {} on host-{}: cannot go on: WORLD_SIZE", culprit,
                                culprit == 0 ? "a" : "b"));
  }
}

TEST_F(UnlikeRanks, CheckpointsOfUnlikeHostsAreNamed) {
  for (const char* host : {"a", "b"}) {
    const Options options = {{"--save", path(fmt::format("{}/saved", host))},
                             {"--steps", host == std::string("a") ? "1" : "2"}};
    for (const Answer& answer : run({options, options})) {
      ASSERT_EQ(answer.code, 0) << answer.err;
    }
  }
  const auto resumed = [&](const char* folder) { return Options{{"--resume", path(folder)}}; };
  expect_named("--resume", {resumed("a/saved"), resumed("b/saved")},
               {"a checkpoint of step 1 after 8 sequences, seed 1",
                "a checkpoint of step 2 after 16 sequences, seed 1"});
  const std::array<Answer, kRanks> answers = run({resumed("a/saved"), resumed("b")});
  expect_one_line(answers[0], 2,
                  "rank 1 on host-b: cannot go on: " + path("b") + ": holds no checkpoint");
  expect_one_line(answers[1], 2, path("b") + ": holds no checkpoint");
}

}  // namespace
}  // namespace trireme::tools
