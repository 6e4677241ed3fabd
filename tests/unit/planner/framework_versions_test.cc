// Frameworks by release: what the data says, that every entry of it can be read, and that the code
// asks data only.
#include "planner/plan/framework_versions.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "core/error.h"
#include "planner/calibrate/published.h"

namespace trireme::planner {
namespace {

namespace fs = std::filesystem;

std::string spec_of(const FrameworkVersion& label) {
  return label.version.empty() ? label.name : label.name + "@" + label.version;
}

TEST(FrameworkVersions, EveryEntryCanBeReadAndSaysItsSource) {
  for (const FrameworkVersion& label : framework_versions()) {
    EXPECT_FALSE(label.summary.empty()) << spec_of(label);
    EXPECT_FALSE(label.source.empty()) << spec_of(label);
    for (const bool yes : {false, true}) {
      for (const auto precision : {topologies::Precision::kBf16, topologies::Precision::kFp8}) {
        const Framework framework =
            find_framework(spec_of(label), {.precision = precision,
                                            .compute_capability = yes ? 100 : 80,
                                            .latent = yes,
                                            .experts = yes,
                                            .gated = yes,
                                            .unfused = yes,
                                            .tensor = yes});
        EXPECT_EQ(full_name(framework), spec_of(label));
        EXPECT_FALSE(framework.constants.empty());
        EXPECT_GT(framework.gradient_bytes, 0) << spec_of(label);
        EXPECT_LE(framework.graphed_launches, 1) << spec_of(label);
      }
    }
  }
}

TEST(FrameworkVersions, ReleasesDifferInWhatTheirRecipesSet) {
  const RecipeCase bf16;
  // NeMo's performance recipes reduce in 16 bits since 25.02; those of NeMo 2.0 in 32.
  EXPECT_EQ(find_framework("nemo@24.09", bf16).reduce_bytes, 4);
  // The pages of 24.12 print layouts of the launcher's example scripts (405B on 72 nodes, 252
  // sequences), which reduce in 16 bits; half of them were told that they do not fit.
  EXPECT_EQ(find_framework("nemo@24.12", bf16).gradient_bytes, 2);
  EXPECT_EQ(find_framework("nemo@24.12", bf16).reduce_bytes, 2);
  EXPECT_FALSE(find_framework("nemo@24.12", bf16).fp8_parameters);
  EXPECT_EQ(find_framework("nemo@25.02", bf16).reduce_bytes, 2);
  EXPECT_EQ(find_framework("nemo@25.02", bf16).gradient_bytes, 2);
  EXPECT_EQ(find_framework("nemo@25.02", bf16).master_bytes, 4);
  EXPECT_EQ(find_framework("nemo@25.07", bf16).master_bytes, 2);  // 16-bit remainders
  RecipeCase latent;
  latent.latent = latent.experts = true;
  EXPECT_EQ(find_framework("megatron-bridge@26.02", latent).moment_bytes, 4);
  EXPECT_EQ(find_framework("megatron-bridge@library", bf16).reduce_bytes, 4);
  RecipeCase blackwell;
  blackwell.compute_capability = 100;
  EXPECT_EQ(find_framework("megatron-bridge@25.09", blackwell).graphed_launches, 0);
  EXPECT_EQ(find_framework("megatron-bridge@25.11", blackwell).graphed_launches, 1);
  EXPECT_EQ(find_framework("megatron@2021").implementation,
            models::Implementation::kClassicMegatron);
  EXPECT_FALSE(find_framework("deepspeed@0.4").overlap_param_gather);
  EXPECT_TRUE(find_framework("torchtitan@2024-12").recorded_collectives);
  EXPECT_FALSE(find_framework("torchtitan@2026-04").recorded_collectives);
}

// Recipes of dense models overlap tensor parallelism in all precisions but 4 bits; without it 405B
// and 70B on H100 came out 8 % too slow.
TEST(FrameworkVersions, PerformanceRecipesOverlapTensorParallelism) {
  RecipeCase run;
  for (const char* spec : {"nemo@24.12", "nemo@25.02", "megatron-bridge@26.06"}) {
    EXPECT_TRUE(find_framework(spec, run).tp_comm_overlap) << spec;
  }
  for (const char* spec : {"nemo@22.01", "nemo@23.07", "megatron-bridge@library", "megatron"}) {
    EXPECT_FALSE(find_framework(spec, run).tp_comm_overlap) << spec;
  }
  run.precision = topologies::Precision::kFp4;
  EXPECT_FALSE(find_framework("megatron-bridge@26.06", run).tp_comm_overlap);
  run.precision = topologies::Precision::kFp8;
  EXPECT_TRUE(find_framework("megatron-bridge@26.06", run).tp_comm_overlap);
  run.experts = true;
  EXPECT_FALSE(find_framework("megatron-bridge@26.06", run).tp_comm_overlap);
}

// What Megatron-Bridge's library recipes do otherwise than its performance pages: gpt-oss and
// Moonlight run all-to-all behind an unfused router, Qwen3 does not, and only a new router of
// gpt-oss collapses.
TEST(FrameworkVersions, LibraryRecipesSayTheirDispatcherAndRouter) {
  const auto library = [](bool biased, bool latent, bool tuning) {
    RecipeCase run;
    run.experts = true;
    run.expert_bias = biased;
    run.latent = latent;
    run.tuning = tuning;
    return find_framework("megatron-bridge@library", run);
  };
  EXPECT_TRUE(library(true, false, false).unbalanced_router);
  EXPECT_TRUE(library(true, false, false).context_all_to_all);
  EXPECT_FALSE(library(true, false, true).unbalanced_router);
  EXPECT_FALSE(library(false, false, false).unbalanced_router);
  EXPECT_FALSE(library(true, false, false).dispatch_once ||
               library(false, true, false).dispatch_once);
  EXPECT_TRUE(library(false, false, false).dispatch_once);
  EXPECT_EQ(library(true, false, true).expert_launches,
            2 * library(false, false, true).expert_launches);
}

// gpt-oss ran all-to-all in the performance recipes, but where a release says otherwise: HybridEP
// on GB200 in 26.04 alone, and in 8 bits from 26.06.
TEST(FrameworkVersions, PerformanceRecipesOfGptOssSayTheirDispatcher) {
  const auto once = [](const char* spec, topologies::Precision precision, int capability) {
    RecipeCase run;
    run.experts = run.expert_bias = true;
    run.precision = precision;
    run.compute_capability = capability;
    return find_framework(spec, run).dispatch_once;
  };
  const auto bf16 = topologies::Precision::kBf16, fp8 = topologies::Precision::kFp8;
  EXPECT_FALSE(once("megatron-bridge@25.11", bf16, 103) ||
               once("megatron-bridge@26.02", bf16, 100));
  EXPECT_TRUE(once("megatron-bridge@26.04", bf16, 100));
  EXPECT_FALSE(once("megatron-bridge@26.04", bf16, 103) ||
               once("megatron-bridge@26.04.01", bf16, 100) ||
               once("megatron-bridge@26.08", bf16, 100));
  EXPECT_TRUE(once("megatron-bridge@26.06", fp8, 100) && once("megatron-bridge@26.08", fp8, 103));
}

// Recipes of 25.11 ran HybridEP inside racks alone; Qwen3-30B's on B200 all-to-all until 26.02.01
// and graphs of the router: 20 % too slow without.
TEST(FrameworkVersions, RacksHaveTheirDispatcherBeforeServers) {
  const auto qwen = [](const char* spec, bool rack) {
    return find_framework(
        spec, {.compute_capability = 100, .experts = true, .pipeline = false, .rack = rack});
  };
  EXPECT_TRUE(qwen("megatron-bridge@25.11", true).dispatch_once);
  EXPECT_FALSE(qwen("megatron-bridge@25.11", false).dispatch_once ||
               qwen("megatron-bridge@26.02", false).dispatch_once);
  EXPECT_TRUE(qwen("megatron-bridge@26.02.01", false).dispatch_once &&
              qwen("megatron-bridge@26.04.01", false).dispatch_once);
  EXPECT_EQ(qwen("megatron-bridge@26.02", false).graphed_launches, 0.3);
  EXPECT_EQ(qwen("megatron-bridge@26.02", true).graphed_launches, 0.5);
  EXPECT_TRUE(is_rack(topologies::load_cluster("gb200-nvl72")));
  EXPECT_FALSE(is_rack(topologies::load_cluster("dgx-b200")));
}

// A card of Qwen3-235B on GB300 names its recipe and not the recipe's twelve virtual stages: 31 %
// too slow without them.
TEST(FrameworkVersions, ACardHasTheVirtualStagesOfItsRecipe) {
  const auto chunks = [](const char* notes) {
    const std::string row = std::string(R"([{"id": "x", "model": "qwen3-235b-a22b", "gpu": "GB300",
      "pp": 4, "precision_detail": "fp8-mx", "date": "2026-08-17", "notes": ")") +
                            notes + "\"}]";
    return parse_published(row, "s").rows.at(0).vpp.value_or(1);
  };
  EXPECT_EQ(chunks("tuned recipe, mock data"), 12);
  EXPECT_EQ(chunks("functional pretraining run"), 1);
}

// Kernels of single experts in 16 bits before Core 0.16 were those of 8 bits: Qwen3-235B on 256
// H800 under Core 0.12 22 to 56 % too slow. AMD's products were one by one.
TEST(FrameworkVersions, OnlyCastsMakeExpertsOfOldReleasesManyKernels) {
  const auto kernels = [](const char* spec, topologies::Precision precision, int capability) {
    RecipeCase run;
    run.experts = true;
    run.precision = precision;
    run.compute_capability = capability;
    return find_framework(spec, run);
  };
  using topologies::Precision;
  EXPECT_EQ(kernels("megatron@core_0.12", Precision::kBf16, 90).expert_kernels, 2);
  EXPECT_EQ(kernels("megatron@core_0.12", Precision::kFp8, 90).expert_kernels, 20);
  EXPECT_EQ(kernels("megatron@core_0.14", Precision::kBf16, 950).expert_kernels, 20);
  EXPECT_FALSE(kernels("megatron@core_0.14", Precision::kBf16, 950).fused_permutation);
  EXPECT_TRUE(kernels("megatron@core_0.14", Precision::kBf16, 90).fused_permutation);
  EXPECT_FALSE(kernels("megatron@core_0.8", Precision::kBf16, 90).fused_permutation);
}

TEST(FrameworkVersions, ACompiledLossIsThatOfItsRelease) {
  for (const auto& [version, with_loss] :
       {std::pair{"2024-04", false}, {"2024-10", true}, {"2024-12", false}, {"2025-04", true}}) {
    Framework framework = find_framework(std::string("torchtitan@") + version);
    apply_setting(framework, "compile", "true");
    EXPECT_EQ(framework.cross_entropy_fusion, with_loss) << version;
  }
}

// megatron-bridge alone was a release older than its oldest: DeepSeek-V3 on GB300, 38.3 s, was
// told 55.7.
TEST(FrameworkVersions, ABareNameIsHowTheFrameworkStands) {
  RecipeCase rack;
  rack.precision = topologies::Precision::kFp8;
  rack.compute_capability = 103;
  rack.latent = rack.experts = true;
  const Framework bare = find_framework("megatron-bridge", rack);
  const Framework newest = find_framework("megatron-bridge@26.08", rack);
  EXPECT_TRUE(bare.version.empty());
  for (const Setting& setting : settings()) {
    EXPECT_EQ(setting_value(bare, setting.name), setting_value(newest, setting.name))
        << setting.name;
  }
  EXPECT_EQ(bare.graphed_launches, 1);
  EXPECT_TRUE(bare.expert_overlap);
  EXPECT_TRUE(find_framework("nemo").cross_entropy_fusion);
  EXPECT_FALSE(find_framework("nemo@24.09").cross_entropy_fusion);
}

TEST(FrameworkVersions, AReleaseBetweenTwoIsTheOlder) {
  EXPECT_EQ(full_name(find_framework("megatron@core_0.13")), "megatron@core_0.12");
  EXPECT_EQ(full_name(find_framework("nemo@24.11")), "nemo@24.09");
  EXPECT_EQ(full_name(find_framework("fsdp2@torch2.7.1")), "fsdp2@torch2.6");
  for (const char* wrong :
       {"megatron@core_0.1", "megatron@", "megatron@newest", "trireme@1", "nemo@x24.11"}) {
    EXPECT_THROW(find_framework(wrong), Error) << wrong;
  }
}

// Thirty branches of the code asked a row's framework, notes and date.
TEST(FrameworkVersions, WordsAndDatesOfARowNameItsVersion) {
  EXPECT_EQ(behaviour_of("megatron", "Megatron-LM (SC21)", "", "2021-04"), "megatron@2021");
  EXPECT_EQ(behaviour_of("megatron", "Megatron-DeepSpeed (BigScience)", "", "2022-02-20"),
            "bloom@2022");
  EXPECT_EQ(behaviour_of("megatron", "Megatron-LM + zero-bubble", "", "2023-11"),
            "zero-bubble@2023");
  EXPECT_EQ(behaviour_of("megatron", "NeMo Megatron launcher 2022-01", "", "2022-01"),
            "nemo@22.01");
  EXPECT_EQ(behaviour_of("megatron", "Megatron-Bridge, NeMo container 26.04.01", "", "2026-05-27"),
            "megatron-bridge@26.04.01");
  // A tuned recipe was modelled as a library recipe of the same day, and took half as long again.
  EXPECT_EQ(behaviour_of("megatron", "Megatron-Bridge 6799f0997, nvcr.io/nvidia/nemo:26.06",
                         "functional pretraining run", "2026-06"),
            "megatron-bridge@library");
  EXPECT_EQ(behaviour_of("megatron", "Megatron-Bridge 6799f0997, nvcr.io/nvidia/nemo:26.06",
                         "tuned recipe", "2026-06-20"),
            "megatron-bridge@26.06");
  EXPECT_EQ(behaviour_of("other", "HAI-LLM", "", "2025-05"), "hai-llm@2024");
  EXPECT_EQ(
      behaviour_of("megatron-fsdp", "Megatron-Bridge, NeMo container 25.09", "", "2025-10-10"),
      "megatron-bridge-fsdp@25.09");
  EXPECT_EQ(behaviour_of("fsdp2", "torchtitan (FSDP2)", "", "2024-12"), "torchtitan@2024-12");
  EXPECT_EQ(behaviour_of("fsdp2", "torchtitan (FSDP2)", "graph_trainer, 8 GPUs", "2026-03-13"),
            "torchtitan@graph-trainer");
  EXPECT_EQ(behaviour_of("other", "nanotron 2025-02", "", "2025-02"), "nanotron@2025");
  EXPECT_EQ(behaviour_of("fsdp1", "llm-foundry/composer (PyTorch FSDP1)", "", "2024-01-06"),
            "llm-foundry@2024");
  EXPECT_EQ(behaviour_of("fsdp2", "NeMo AutoModel (TE + triton + fsdp2_prefetch)", "", "2026-04"),
            "nemo-automodel");
  // FSDP of PyTorch's name without a number is the first; it was taken for the second.
  EXPECT_EQ(behaviour_of("other", "PyTorch FSDP + Transformer Engine linear layers", "", "2024-10"),
            "fsdp1");
  EXPECT_EQ(behaviour_of("torchtitan@0.2.2", "anything", "", "2021"), "torchtitan@0.2.2");
  EXPECT_EQ(behaviour_of("other", "a framework of one's own", "", ""), "");
}

TEST(FrameworkVersions, ARowMayNameItsVersion) {
  const PublishedRow row =
      parse_published(R"([{"id": "a", "model": "m", "layers": 4, "hidden": 256, "heads": 4,
      "vocab": 1024, "seq": 512, "gpu": "A100", "gpus": 1, "micro_batch": 1, "global_batch": 4, "precision": "bf16",
      "behaviour": "megatron@2021", "attention": "unfused"}])",
                      "s")
          .rows.at(0);
  const PublishedCase found = row_to_case(row);
  EXPECT_EQ(found.skipped, "");
  EXPECT_EQ(full_name(found.job.framework), "megatron@2021");
  PublishedRow wrong = row;
  wrong.behaviour = "megatron@1999";
  EXPECT_NE(row_to_case(wrong).skipped.find("no such version"), std::string::npos);
}

TEST(FrameworkVersions, EverySettingSaysWhatItMeans) {
  const Framework framework = find_framework("torchtitan");
  for (const Setting& setting : settings()) {
    EXPECT_FALSE(setting.help.empty()) << setting.name;
    if (const std::string value = setting_value(framework, setting.name); !value.empty()) {
      Framework again = framework;
      EXPECT_NO_THROW(apply_setting(again, setting.name, value)) << setting.name << "=" << value;
      EXPECT_EQ(setting_value(again, setting.name), value);
    }
  }
}

// No branch on a framework's name, nor on a row's source, framework, notes or date.
TEST(FrameworkVersions, TheCodeAsksDataNotNames) {
  const std::regex named(
      R"re(framework(_of\(\w+\))?\.(name|base|version)\s*(==|!=|\.starts_with|\.find|\.compare))re"
      R"re(|row_?\.(framework|notes|date)\s*(==|!=|<|>|\.find|\.starts_with|\.substr))re"
      R"re(|contains\(row_?\.(source|framework|notes|date))re"
      R"re(|\.source\s*(==|!=)\s*")re");
  int read = 0;
  for (const char* room : {"planner", "tools"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(TRIREME_SOURCE_DIR) / room)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") {
        continue;
      }
      ++read;
      std::ifstream file(entry.path());
      std::string line;
      for (int number = 1; std::getline(file, line); ++number) {
        EXPECT_FALSE(std::regex_search(line, named))
            << entry.path() << ":" << number << ": " << line;
      }
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace trireme::planner
