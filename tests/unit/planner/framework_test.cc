#include "planner/plan/framework.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trireme::planner {
namespace {

TEST(Framework, EveryNameIsFound) {
  for (const char* name : {"trireme", "megatron", "megatron-fsdp", "fsdp1", "fsdp2", "deepspeed"}) {
    EXPECT_EQ(find_framework(name).name, name);
  }
  EXPECT_THROW(find_framework("fsdp3"), Error);
}

TEST(Framework, BytesPerParameterFollowTheFacts) {
  // Megatron 2 w + 4 g + 4 master + 8; FSDP2 rests in fp32 only.
  const Framework megatron = find_framework("megatron");
  EXPECT_EQ(megatron.parameter_bytes + megatron.gradient_bytes + megatron.master_bytes +
                megatron.moment_bytes,
            18);
  EXPECT_TRUE(find_framework("fsdp2").fp32_shard_is_parameter);
  EXPECT_FALSE(find_framework("deepspeed").pad_vocabulary);
}

TEST(Framework, SettingsOverrideChoices) {
  Framework framework = find_framework("fsdp2");
  apply_setting(framework, "compile", "true");
  EXPECT_EQ(framework.implementation, models::Implementation::kCompiledTorch);
  apply_setting(framework, "compile", "false");
  EXPECT_EQ(framework.implementation, models::Implementation::kEagerTorch);
  apply_setting(framework, "parameter_dtype", "bf16");
  EXPECT_EQ(framework.master_bytes, 0);
  EXPECT_EQ(framework.gradient_bytes, 2);
  apply_setting(framework, "optimizer_dtype", "bf16");
  EXPECT_EQ(framework.moment_bytes, 4);
  apply_setting(framework, "reshard_after_forward", "false");
  EXPECT_FALSE(framework.reshard_after_forward);
  apply_setting(framework, "dropout", "0.1");
  EXPECT_DOUBLE_EQ(framework.dropout, 0.1);
}

// Under this project's runtime types of the states changed the step and not the memory.
TEST(Framework, TheOwnRuntimeHasOneSetOfTypes) {
  for (const auto& [key, value] : {std::pair{"parameter_dtype", "bf16"},
                                   {"parameter_dtype", "fp32"},
                                   {"optimizer_dtype", "bf16"},
                                   {"grad_dtype", "bf16"},
                                   {"reduce_dtype", "fp16"},
                                   {"moment_bytes", "2"},
                                   {"mixed_precision", "pure"}}) {
    Framework own = find_framework("trireme");
    EXPECT_THROW(apply_setting(own, key, value), Error) << key << "=" << value;
    Framework other = find_framework("fsdp2");
    EXPECT_NO_THROW(apply_setting(other, key, value)) << key << "=" << value;
  }
  Framework own = find_framework("trireme");
  EXPECT_NO_THROW(apply_setting(own, "optimizer_dtype", "fp32"));  // as it is
  EXPECT_NO_THROW(apply_setting(own, "moment_bytes", "8"));
}

// 1e12 left the range of an int, which is undefined, and 2.7 became 2.
TEST(Framework, CountsAreWholeAndFitTheirField) {
  Framework framework = find_framework("fsdp2");
  apply_setting(framework, "prefetch_units", "3");
  EXPECT_EQ(framework.prefetch_units, 3);
  apply_setting(framework, "bucket_elements", "5e8");
  EXPECT_EQ(framework.bucket_elements, 500'000'000);
  for (const char* wrong : {"1e12", "2147483648", "2.7", "-1", "nan", "inf"}) {
    try {
      apply_setting(framework, "prefetch_units", wrong);
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
    EXPECT_EQ(framework.prefetch_units, 3);
  }
}

TEST(Framework, WrongSettingsAreRefusedWithWhatExists) {
  Framework framework = find_framework("megatron");
  EXPECT_THROW(apply_setting(framework, "compile", "maybe"), Error);
  EXPECT_THROW(apply_setting(framework, "dropout", "-1"), Error);
  EXPECT_THROW(apply_setting(framework, "grad_dtype", "int8"), Error);
  try {
    apply_setting(framework, "overlap", "true");
    FAIL() << "an unknown setting was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("overlap_grad_reduce"), std::string::npos);
  }
  for (const std::string& name : setting_names()) {
    EXPECT_THROW(apply_setting(framework, name, "nonsense"), Error) << name;
  }
}

}  // namespace
}  // namespace trireme::planner
