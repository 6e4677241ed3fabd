// Turns a failed CUDA, cuBLASLt, cuDNN or NCCL call into an Error that says what was being done.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <string>

#include "core/error.h"

namespace trireme::runtime::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw Error(what, std::string("CUDA says: ") + cudaGetErrorString(status),
                ErrorKind::kMissingMachine);
  }
}

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(what, std::string("cuBLASLt says: ") + cublasLtGetStatusString(status),
                ErrorKind::kMissingMachine);
  }
}

inline void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw Error(what, std::string("cuDNN says: ") + cudnnGetErrorString(status),
                ErrorKind::kMissingMachine);
  }
}

// Communicators here are blocking (communicators.h): a call that comes back unfinished has queued
// nothing yet, and what is queued after it would not wait for it.
inline void check(ncclResult_t status, const char* what) {
  if (status == ncclInProgress) {
    throw Error(what,
                "NCCL came back before the call was done, as with NCCL_COMM_BLOCKING=0; unset it: "
                "communicators must be blocking",
                ErrorKind::kMissingMachine);
  }
  if (status != ncclSuccess) {
    throw Error(what, std::string("NCCL says: ") + ncclGetErrorString(status),
                ErrorKind::kMissingMachine);
  }
}

}  // namespace trireme::runtime::cuda
