// Every kind of bad input gives one clear line on stderr and exit code 2; an impossible request
// exits 1 with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/tools/command.h"

namespace trireme::tools {
namespace {

std::string file_with(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

void expect_one_line(const Answer& outcome, const std::string& what) {
  EXPECT_EQ(outcome.code, 2) << what << "\n" << outcome.err;
  EXPECT_EQ(outcome.out, "") << what;
  EXPECT_TRUE(outcome.err.starts_with("trireme: ")) << what << "\n" << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << what << "\n"
                                                                         << outcome.err;
  EXPECT_GT(outcome.err.size(), 20U) << what;
  for (const char* raw : {"std::", "terminate", "exception", "json.exception", "internal error"}) {
    EXPECT_EQ(outcome.err.find(raw), std::string::npos) << what << "\n" << outcome.err;
  }
}

const std::string kModel = "estimate --cluster dgx-h100x1 --model ";
const std::string kGood = "estimate --cluster dgx-h100x1 --model llama-3.1-8b ";

TEST(BadInput, LengthsWithoutAnEndAreRefused) {
  expect_one_line(run_words(kGood + "--lengths /dev/zero"), "/dev/zero");
  expect_one_line(run_words(kGood + "--lengths /"), "a folder");
}

// '--nodes ""' meant the whole network, "--layout ''" one GPU: a variable that nobody set.
TEST(BadInput, AnEmptyValueIsNoDefault) {
  const std::vector<std::string> estimate = {"estimate", "--model", "llama-3.1-8b", "--cluster",
                                             "dgx-h100x1"};
  for (const char* option :
       {"--layout", "--stage-layers", "--calibration", "--offload", "--recompute-modules", "--set",
        "--lora-targets", "--gpus", "--tp", "--sharding", "--fsdp-unit", "--lengths", "--report"}) {
    std::vector<std::string> line = estimate;
    line.insert(line.end(), {option, ""});
    expect_one_line(run_command(line), 2, std::string(option) + ": is empty");
    line.pop_back();
    line.back() += "=";
    expect_one_line(run_command(line), 2, std::string(option) + ": is empty");
  }
  expect_one_line(run_command({"topo", "import", "any.conf", "--nodes", ""}), 2,
                  "--nodes: is empty");
  expect_one_line(run_command({"budget", "--mtbf", ""}), 2, "--mtbf: is empty");
  expect_one_line(run_command({"plan", "--csv", ""}), 2, "--csv: is empty");
  expect_one_line(run_command({"estimate", ""}), 2, "PLAN: is empty");
  expect_one_line(run_command({"topo", "show", ""}), 2, "is empty");
}

// 100,000 micro-batches were simulated op by op, for minutes and in tens of GiB.
TEST(BadInput, StepsOfTooManyOpsAreRefusedBeforehand) {
  const std::string many =
      " --model llama-3.1-8b --cluster dgx-h100x1 --tp 2 --pp 4 --global-batch 100000 --seq 4096";
  for (const char* command : {"simulate", "whatif --keep-layout --simulate --vary seq=4096"}) {
    expect_one_line(run_words(command + many), 2, "at most 8333 would be right");
  }
  EXPECT_EQ(run_words("estimate" + many).code, 0);
}

// {} was an empty list, null an unknown key, and counts of layers added up beyond 64 bits.
TEST(BadInput, PlanFilesHoldWhatTheirKeysTake) {
  const TestFolder folder;
  const std::string path = folder.path("plan.json");
  ASSERT_EQ(run_words("plan --model llama-3.2-1b --cluster dgx-h100x1 --global-batch 8 --seq 2048 "
                      "--threads 1 -q -o " +
                      path)
                .code,
            0);
  std::ifstream written(path);
  const auto plan = nlohmann::json::parse(written);
  const auto expect = [&](const char* pointer, nlohmann::json value, const std::string& words) {
    nlohmann::json other = plan;
    other[nlohmann::json::json_pointer(pointer)] = std::move(value);
    expect_one_line(run_command({"estimate", folder.file("other.json", other.dump())}), 2, words);
  };
  expect("/layout/stage_layers", nlohmann::json::object(), "stage_layers: is no list");
  expect("/layout/stage_layers", {9e18, 9e18}, "stage_layers: holds");
  expect("/layout/stage_layers", {9000000000000000000, 9000000000000000000},
         "from 0 to 1000000000");
  expect("/job/global_batch", nullptr, "global_batch: is null; a value");
}

TEST(BadInput, NumbersOfNoMachineAreRefused) {
  const std::string conf = file_with("numbers.conf", "SwitchName=s0 Nodes=a[0-3]\n");
  for (const char* rate : {"0 Gbit/s", "1e300 Gbit/s", "1 B/s"}) {
    expect_one_line(run_command({"topo", "import", conf, "--nic", rate}), 2, "--nic");
  }
  for (const char* setting :
       {"dropout=7", "parameter_bytes=0", "gradient_bytes=77", "reserved_high=0", "loss_chunks=0",
        "graphed_launches=9", "context_gib=1e9", "expert_load=1e9", "prefetch_units=1e9"}) {
    expect_one_line(run_words(kGood + "--set " + setting), 2, "--set");
  }
  expect_one_line(run_words("simulate" + kGood.substr(8) + "--slow-link 0x@nvlink"), 2,
                  "--slow-link");
  expect_one_line(run_words("simulate" + kGood.substr(8) + "--seed x"), 2, "--seed: 'x'");
  expect_one_line(run_words("whatif" + kGood.substr(8) + "--vary nic_latency=1e300s"), 2,
                  "too large");
  const std::string budget =
      "budget --model llama-3.1-8b --global-batch 64 --seq 4096 --tokens 1B --offer dgx-h100x1=2 ";
  for (const char* rest : {"--deadline 0", "--interval 0", "--mtbf 0"}) {
    expect_one_line(run_words(budget + rest), 2, "1 s or more");
  }
}

// What one option says of recompute, and another one took away in silence.
TEST(BadInput, WhatOneOptionTakesFromAnotherIsRefused) {
  for (const char* rest :
       {"--recompute full --recompute-modules mlp", "--recompute none --recompute-modules mlp",
        "--recompute none --recompute-layers 3", "--recompute selective --recompute-layers 3",
        "--recompute-layers 3 --recompute-modules mlp", "--layout fsdp8.rc-full --recompute none",
        "--layout fsdp8.rc-full --recompute-modules mlp", "--layout fsdp8.zero1 --sharding full",
        "--layout pp2.dp4.gpipe --schedule 1f1b", "--set compile=true --set compile=false",
        "--layout fsdp8.mb2 --micro-batch 4", "--set =1"}) {
    expect_one_line(run_words(kGood + rest), rest);
  }
  EXPECT_EQ(run_words(kGood + "--layout fsdp8 --sharding gradients --set compile=true --set "
                              "compile=true --json")
                .code,
            0);
}

// A key of 50,000 dots was a table in a table so many times, and ended the program.
TEST(BadInput, TablesWithoutEndAreRefused) {
  std::string dots = "a";
  for (int i = 0; i < 50'000; ++i) {
    dots += ".a";
  }
  const std::string head = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\n";
  for (const std::string& text : {head + dots + " = 1\n", "[" + dots + "]\nx = 1\n" + head,
                                  head + "x = {" + dots + " = 1}\n"}) {
    expect_one_line(run_words("check " + file_with("deep.toml", text) + " --cluster dgx-h100x1"), 2,
                    "deep");
  }
  const std::string text = head + "dataset_path = \"" + dots + "\" # " + dots + "\n";
  EXPECT_EQ(run_words("check " + file_with("flat.toml", text) + " --cluster dgx-h100x1").code, 0);
}

TEST(BadInput, NetworksWithoutEndAreRefused) {
  std::string text;
  for (int leaf = 0; leaf < 60; ++leaf) {
    text +=
        "SwitchName=s" + std::to_string(leaf) + " Nodes=n" + std::to_string(leaf) + "-[0-999999]\n";
  }
  expect_one_line(run_words("topo import " + file_with("wide.conf", text)), 2, "at most 262144");
}

// The line says what would be right, not only what is wrong.
TEST(BadInput, LayoutsThatBreakARuleNameOneThatHolds) {
  const std::pair<const char*, const char*> cases[] = {
      {"--pp 2 --stage-layers 16,15 --global-batch 64", "16,16 would"},
      {"--stage-layers 16,16 --global-batch 64", "--pp 2, would be right"},
      {"--micro-batch 65 --fsdp 8 --global-batch 64", "micro-batch 8, or global batch"},
      {"--pp 2 --vpp 2 --schedule 1f1b --global-batch 64", "schedule interleaved, or vpp 1"},
      {"--pp 2 --schedule interleaved --global-batch 64", "vpp 2 or more, or schedule 1f1b"},
      {"--vpp 2 --schedule 1f1b --global-batch 64", "pp 2 or more"},
      {"--recompute-layers 999", "or fewer would be right"},
      {"--sharding zero-9", "none, optimizer, gradients, full"},
  };
  for (const auto& [words, right] : cases) {
    expect_one_line(run_words(kGood + words), 2, right);
  }
  EXPECT_EQ(run_words(kGood + "--fsdp 8 --sharding zero-2").code, 0);
}

TEST(BadInput, FamiliesOfModelsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {{"mixtral", "mixtral-8x7b"},
                                                       {"gpt3", "gpt3-175b"},
                                                       {"llama-70b", "llama-3.1-70b"},
                                                       {"mixtral-7b", "mixtral-8x7b"}};
  for (const auto& [typed, right] : cases) {
    expect_one_line(run_words(kModel + typed), 2, right);
  }
}

TEST(BadInput, WhatTopoImportReadsIsNoTopologyFile) {
  const std::string conf = file_with("slurm.conf", "SwitchName=s0 Nodes=a[0-3]\n");
  const std::string smi = file_with("smi.txt", "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n");
  for (const std::string& file : {conf, smi}) {
    expect_one_line(run_words("plan --model gpt2 --cluster " + file), 2, "trireme topo import");
  }
}

TEST(BadInput, FrozenWeightsThatAFrameworkCannotStoreAreRefused) {
  const std::string job =
      "plan --model llama-3.1-8b --cluster dgx-h100x1 --lora-rank 16 --base nf4 --framework ";
  for (const char* framework : {"megatron", "megatron-bridge"}) {
    expect_one_line(run_words(job + framework), 2, "--base");
  }
}

TEST(BadInput, SearchesWithoutEndAreRefused) {
  expect_one_line(run_words("plan --model deepseek-v3 --cluster dgx-h100x100000 --seq 8192 "
                            "--global-batch 800000 --framework trireme"),
                  2, "fix an axis");
}

TEST(BadInput, WhatIsSaidTwiceDifferentlyIsRefused) {
  expect_one_line(run_words(kGood + "--layout tp8.tp4"), "tp twice");
  expect_one_line(run_words(kGood + "--layout tp8 --tp 4"), "layout and flag");
  expect_one_line(run_words("estimate --model llama-3.1-8b --cluster /"), "a folder for a cluster");
  expect_one_line(
      run_words("budget --model llama-3.1-8b --offer dgx-h100x1=2 --tokens 1T --global-batch 16 "
                "--seq 2048 --mtbf 0"),
      "no time between failures");
}

TEST(BadInput, MeasurementsWithoutAnEndAreRefused) {
  expect_one_line(run_words("validate --rows /dev/zero"), "/dev/zero");
  expect_one_line(run_words("topo lint --cluster dgx-h100x1 --log /dev/zero"), 2, "4194304 bytes");
  expect_one_line(run_words("calibrate --fit /dev/zero --cluster dgx-h100x1 -o /tmp/none.json"),
                  "/dev/zero");
}

TEST(BadInput, WhatCannotBeWrittenIsSaidBeforeAnyAnswer) {
  const std::string job =
      " --model llama-3.1-8b --cluster dgx-h100x1 --seq 4096 --global-batch 64 --json ";
  for (const char* rest : {"-o /nowhere/p.json", "--csv /nowhere/p.csv", "--report /nowhere/p"}) {
    expect_one_line(run_words("plan" + job + rest), rest);
  }
  const std::string tune = "tune" + job + "--framework megatron ";
  expect_one_line(run_words(tune + "--state /dev/null"), "no folder");
  expect_one_line(
      run_words(tune + "-o /nowhere/tune.json --state " + testing::TempDir() + "tune_state"),
      "nowhere");
}

TEST(BadInput, FlagsGiveOneLineAndCodeTwo) {
  for (const char* rest : {"--tp abc",
                           "--tp 0",
                           "--tp -1",
                           "--tp 1.5",
                           "--tp 99999999999999999999",
                           "--tp nan",
                           "--tp 3",
                           "--tp 16",
                           "--seq 0",
                           "--global-batch -8",
                           "--global-batch 7",
                           "--gpus 9",
                           "--gpus 0",
                           "--precision int3",
                           "--optimizer lion",
                           "--framework horovod",
                           "--set nokey",
                           "--set unknown=1",
                           "--set compile=maybe",
                           "--recompute-modules nonsense",
                           "--stage-layers 1,2,x --pp 4",
                           "--stage-layers 1,2 --pp 2",
                           "--fsdp-unit -3",
                           "--sharding half",
                           "--schedule spiral --pp 2",
                           "--layout tp2..pp2",
                           "--layout hello",
                           "--vpp 2",
                           "--ep 4",
                           "--pp 64",
                           "--dp 3",
                           "--data-parallel 3 --fsdp 2",
                           "--calibration /nonexistent.json",
                           "--bogus 1",
                           "--tp",
                           "extra words",
                           "--cp 3"}) {
    expect_one_line(run_words(kGood + rest), rest);
  }
}

// Counts of elements left 64 bits in the closed form, durations in the simulator.
TEST(BadInput, StepsBeyondSixtyFourBitsGiveOneLineAndCodeTwo) {
  const std::string job = " --model llama-3.1-8b --cluster dgx-h100x1 --seq 1000000000 ";
  for (const char* rest :
       {"--micro-batch 1000000000", "--tp 8 --micro-batch 1000000 --attention unfused",
        "--global-batch 1000000000 --pp 8"}) {
    expect_one_line(run_words("estimate" + job + rest), rest);
  }
  expect_one_line(run_words("plan" + job + "--global-batch 1000000000"), "plan");
  expect_one_line(run_words("simulate" + job + "--tp 8 --micro-batch 100"), "simulate");
}

TEST(BadInput, ModelsAndClustersGiveOneLineAndCodeTwo) {
  for (const std::string& line :
       {std::string("estimate"), std::string("estimate --model gpt2"), kModel + "llama-9-900b",
        kModel + "/nonexistent", kModel + file_with("empty.json", ""),
        kModel + file_with("truncated.json", "{\"hidden_size\": 4096,"),
        kModel + file_with("list.json", "[1, 2]"), kModel + file_with("text.json", "hello"),
        kModel + file_with("nothing.json", "{}"),
        kModel + file_with("wrong.json", R"({"model_type": "llama", "hidden_size": "wide"})"),
        kModel + file_with("binary.json", std::string("\x00\xff\xfe{", 4)),
        std::string("estimate --model gpt2 --cluster nowherex2"),
        std::string("estimate --model gpt2 --cluster dgx-h100x0"),
        std::string("estimate --model gpt2 --cluster dgx-h100x-1"),
        std::string("estimate --model gpt2 --cluster dgx-h100x99999999999999"),
        "estimate --model gpt2 --cluster " +
            file_with("cluster.json", R"({"name": "c", "unknown": 1})"),
        "estimate --model gpt2 --cluster " + file_with("cut.json", R"({"name": )"),
        "estimate " + file_with("plan.json", R"({"schema": "other/1"})"),
        std::string("estimate /nonexistent/plan.json")}) {
    expect_one_line(run_words(line), line);
  }
}

TEST(BadInput, CommandsGiveOneLineAndCodeTwo) {
  const std::string plan = "plan --model gpt2 --cluster dgx-h100x1 ";
  for (const std::string& line :
       {std::string(), std::string("fly"), std::string("--fly"), plan + "--constraint tp",
        plan + "--constraint xx<=2", plan + "--objective beauty", plan + "--objective cost",
        plan + "--price -1 --objective cost", plan + "--weights 1,2", plan + "--top 0",
        plan + "--threads 0", std::string("models --model nothing"),
        std::string("explain --model gpt2 --cluster dgx-h100x1 --against tpx")}) {
    expect_one_line(run_words(line), line);
  }
}

TEST(Answers, NothingFitsExitsOneWithTheNearestMiss) {
  const Answer outcome = run_words("plan --model llama-3.1-405b --cluster dgx-h100x1 --json");
  EXPECT_EQ(outcome.code, 1);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(json.at("best").is_null());
  ASSERT_FALSE(json.at("nearest_misses").empty());
  EXPECT_GT(json.at("nearest_misses")[0].at("missing_gib").get<double>(), 0);
}

TEST(Answers, ALayoutThatDoesNotFitIsEstimatedAndExitsOne) {
  const Answer outcome =
      run_words("estimate --model llama-3.1-70b --cluster dgx-h100x1 --tp 8 --json");
  EXPECT_EQ(outcome.code, 1);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_FALSE(json.at("fits").get<bool>());
  EXPECT_GT(json.at("memory").at("peak_allocated_gib").get<double>(), 80);
}

TEST(Answers, EstimateHasTheFixedKeysAndAddsUp) {
  const Answer outcome =
      run_words(kGood + "--tp 2 --pp 2 --sharding full --micro-batch 2 --global-batch 16 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("schema"), "trireme.estimate/1");
  EXPECT_EQ(json.at("layout").at("fsdp"), 2);
  EXPECT_EQ(json.at("layout").at("micro_batches"), 4);
  double seconds = 0;
  for (const auto& item : json.at("time").at("breakdown_seconds")) {
    seconds += item.get<double>();
  }
  EXPECT_NEAR(seconds, json.at("time").at("step_seconds").get<double>(), 1e-9);
  double gib = 0;
  for (const auto& item : json.at("memory").at("breakdown_gib")) {
    gib += item.get<double>();
  }
  EXPECT_NEAR(gib, json.at("memory").at("peak_allocated_gib").get<double>(), 1e-9);
  EXPECT_EQ(json.at("memory").at("stages").size(), 2U);
}

TEST(Answers, APlanFileGivesTheSameEstimate) {
  const std::string path = testing::TempDir() + "best.json";
  const Answer planned = run_words(
      "plan --model llama-3.2-1b --cluster dgx-h100x1 --global-batch 16 --json -o " + path);
  ASSERT_EQ(planned.code, 0) << planned.err;
  const Answer estimated = run_words("estimate --json " + path);
  ASSERT_EQ(estimated.code, 0) << estimated.err;
  const auto best = nlohmann::json::parse(planned.out).at("best");
  const auto again = nlohmann::json::parse(estimated.out);
  EXPECT_EQ(again.at("layout"), best.at("layout"));
  EXPECT_EQ(again.at("time"), best.at("time"));
}

TEST(Answers, ExplainPrintsEveryFormula) {
  const Answer outcome =
      run_words("explain --model llama-3.2-1b --cluster dgx-h100x1 --global-batch 16 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  for (int number = 1; number <= 27; ++number) {
    const std::string key = "F" + std::to_string(number);
    if (number <= 20 || number == 25 || number == 26) {
      EXPECT_TRUE(json.at("formulas").contains(key)) << key;
    }
  }
  EXPECT_EQ(json.at("rules").size(), 3U);
  EXPECT_FALSE(json.at("warnings").empty());
  EXPECT_EQ(json.at("comparison").size(), 3U);
}

TEST(Help, EveryCommandShowsAnExample) {
  for (const char* command : {"plan", "estimate", "explain", "models", "clusters"}) {
    const Answer outcome = run_command({command, "--help"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.out.find(std::string("trireme ") + command), std::string::npos)
        << outcome.out;
  }
}

TEST(BadInput, AnEmptyNameOfAFileIsNamedAsThat) {
  expect_one_line(run_command({"check", "", "--cluster", "dgx-h100x1"}), 2, "FILE: is empty");
}

TEST(BadInput, OptionsOfOtherProgramsAreAnsweredWithOurs) {
  const std::pair<const char*, const char*> cases[] = {
      {"--tensor-parallel-size 2", "--tp is"},
      {"--tensor_model_parallel_size 2", "--tp is"},
      {"--pipeline-parallel-degree 2", "--pp is"},
      {"--cp-size 2", "--cp is"},
      {"--seqlen 4096", "--seq is"},
      {"--max-seq-len 4096", "--seq is"},
      {"--nodes 2", "--cluster is"},
      {"--per-device-train-batch-size 1", "--micro-batch is"},
      {"--gradient-checkpointing", "--recompute is"},
      {"--lora 16", "--lora-rank is"},
  };
  for (const auto& [typed, right] : cases) {
    expect_one_line(run_words(kGood + typed), 2, right);
  }
  expect_one_line(run_words("estimte --model gpt2"), 2, "estimte: is not a command");
}

// "estimate: --tp: 1 required N missing; see trireme estimate --help", and of a command in a
// command the help of one that does not exist.
TEST(BadInput, AValueTooFewOrTooManyIsSaidInWords) {
  const Answer none = run_command({"estimate", "--model", "gpt2", "--cluster", "a100", "--tp="});
  EXPECT_TRUE(none.err.starts_with("trireme: --tp: is empty")) << none.err;
  const Answer two = run_command({"estimate", "--tp", "1", "--tp", "2"});
  EXPECT_EQ(two.err, "trireme: --tp: takes one value; see trireme estimate --help\n");
  const Answer inner = run_command({"topo", "show", "--no-such"});
  EXPECT_NE(inner.err.find("see trireme topo show --help"), std::string::npos) << inner.err;
}

}  // namespace
}  // namespace trireme::tools
