// Nodes of supercomputers beside what was measured on them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "tests/unit/tools/command.h"

namespace trireme::tools {
namespace {

// Four GH200 a node had no preset, and one GPU a node stood for them: 6,500 tokens a second and
// GPU. Llama 8B on 64 nodes of Alps as it was measured (swiss-ai/Megatron-LM, pull request 33).
TEST(MeasuredNodes, FourGraceHoppersOfAlps) {
  for (const auto& [layout, sequence, batch, measured] :
       {std::tuple{"tp2.fsdp128.mb4.zero1", 4096, 512, 8000.0},
        {"fsdp256.mb1.zero1", 8192, 256, 8290.0},
        {"fsdp256.mb2.zero1", 4096, 512, 8840.0}}) {
    const nlohmann::json answer =
        json_of({"estimate", "--json", "--model", "llama-3.1-8b", "--cluster", "alpsx64",
                 "--framework", "megatron@core_0.8", "--seq", std::to_string(sequence),
                 "--global-batch", std::to_string(batch), "--layout", layout});
    const double tokens = answer["throughput"]["tokens_per_second_per_gpu"];
    EXPECT_NEAR(tokens / measured, 1, 0.1) << layout;
    EXPECT_NE(answer["fit"], "no") << layout;
  }
}

}  // namespace
}  // namespace trireme::tools
