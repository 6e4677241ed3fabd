#include "runtime/cuda/check.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::runtime::cuda {
namespace {

// An unfinished call passed for a finished one, whose collective later ones did not wait for.
TEST(CudaCheck, AnNcclCallInProgressIsAnErrorThatNamesTheCall) {
  EXPECT_NO_THROW(check(ncclSuccess, "all_gather"));
  try {
    check(ncclInProgress, "all_gather");
    FAIL() << "passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMissingMachine);
    const std::string text = error.what();
    EXPECT_NE(text.find("all_gather"), std::string::npos) << text;
    EXPECT_NE(text.find("NCCL_COMM_BLOCKING"), std::string::npos) << text;
  }
  EXPECT_THROW(check(ncclSystemError, "all_gather"), Error);
}

}  // namespace
}  // namespace trireme::runtime::cuda
