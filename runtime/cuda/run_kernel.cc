#include "runtime/cuda/run_kernel.h"

#include <string>

#include "core/check.h"
#include "runtime/cuda/call.h"

namespace trireme::runtime::cuda {
namespace {

void run_embedding(const Call& c) {
  const Kernel kernel = c.work.kernel;
  if (kernel == Kernel::kEmbeddingForward) {
    embedding_forward(c.stream(), c.tokens(0), c.compute(1), c.compute(2), c.dim(0), c.dim(1),
                      c.dim(2), c.place(3) * c.dim(2),
                      static_cast<float>(c.arithmetic().embedding_multiplier));
    return;
  }
  if (kernel == Kernel::kEmbeddingBackward) {
    embedding_backward(c.stream(), c.tokens(0), c.compute(1), c.master(2), c.dim(0), c.dim(1),
                       c.dim(2), c.place(3) * c.dim(2), c.flag(4),
                       static_cast<float>(c.arithmetic().embedding_multiplier));
    return;
  }
  if (kernel == Kernel::kPositionForward) {
    position_forward(c.stream(), c.compute(0), c.compute(1), c.dim(0), c.dim(1),
                     c.positions(c.dim(2), 5), c.place(4) * c.dim(0));
    return;
  }
  position_backward(c.stream(), c.compute(0), c.master(1), c.dim(0), c.dim(1),
                    c.positions(c.dim(2), 5), c.dim(3), c.place(4) * c.dim(0), c.flag(6));
}

void run_matmul(const Call& c) {
  c.context.matmuls->run({.m = c.dim(0),
                          .n = c.dim(1),
                          .k = c.dim(2),
                          .transpose_a = c.flag(3),
                          .transpose_b = c.flag(4),
                          .accumulate = c.flag(5),
                          .output_fp32 = c.is_master(2)},
                         c.operands[0].data, c.operands[1].data, c.operands[2].data,
                         c.context.matmul_workspace, c.stream());
}

void run_norm(const Call& c) {
  need_vectors(c, c.dim(1));
  const Kernel kernel = c.work.kernel;
  if (kernel == Kernel::kLayerNormForward) {
    layer_norm_forward(c.stream(), c.compute(0), c.compute(1), c.compute(2), c.compute(3),
                       c.master(4), c.master(5), c.dim(0), c.dim(1), c.norm_numbers());
    return;
  }
  if (kernel == Kernel::kRmsNormForward) {
    rms_norm_forward(c.stream(), c.compute(0), c.compute(1), c.compute(2), c.master(3), c.dim(0),
                     c.dim(1), c.norm_numbers());
    return;
  }
  if (kernel == Kernel::kLayerNormBackward) {
    norm_backward(c.stream(),
                  {c.compute(0), c.compute(1), c.compute(2), c.master(3), c.master(4),
                   c.flag(3) ? c.compute(5) : nullptr, c.compute(6), c.master(7), c.master(8),
                   c.dim(0), c.dim(1), c.flag(2), c.norm_numbers()},
                  c.scratch());
    return;
  }
  norm_backward(c.stream(),
                {c.compute(0), c.compute(1), c.compute(2), nullptr, c.master(3),
                 c.flag(3) ? c.compute(4) : nullptr, c.compute(5), c.master(6), nullptr, c.dim(0),
                 c.dim(1), c.flag(2), c.norm_numbers()},
                c.scratch());
}

void run_head_norm(const Call& c) {
  HeadNorm norm{};
  norm.rows = c.dim(0);
  norm.heads = c.dim(1);
  norm.kv_heads = c.dim(2);
  norm.head_size = c.dim(3);
  norm.numbers = c.norm_numbers();
  if (c.work.kernel == Kernel::kHeadNormForward) {
    norm.input = c.compute(0);
    norm.q_weight = c.compute(1);
    norm.k_weight = c.compute(2);
    norm.output = c.compute(3);
    norm.rstd = c.master(4);
    head_norm_forward(c.stream(), norm);
    return;
  }
  norm.input = c.compute(0);
  norm.x = c.compute(1);
  norm.q_weight = c.compute(2);
  norm.k_weight = c.compute(3);
  norm.rstd = c.master(4);
  norm.output = c.compute(5);
  norm.dq_weight = c.master(6);
  norm.dk_weight = c.master(7);
  norm.accumulate = c.flag(4);
  head_norm_backward(c.stream(), norm, c.scratch());
}

void run_attention(const Call& c) {
  AttentionCall shape{c.dim(0), c.dim(1), c.dim(2), c.dim(3), c.dim(4), c.dim(5), c.dim(6)};
  shape.scale = c.attention_scale(shape.head_size);
  shape.cap = c.arithmetic().attention_cap;
  need_vectors(c, shape.head_size);
  need_vectors(c, shape.values());
  if (c.work.kernel == Kernel::kAttentionForward) {
    c.context.attention->forward(shape, c.compute(0), c.compute(1), c.master(2),
                                 c.context.matmul_workspace, c.stream());
  } else {
    c.context.attention->backward(shape, c.compute(0), c.compute(1), c.compute(2), c.master(3),
                                  c.compute(4), c.context.matmul_workspace, c.stream());
  }
}

void run_activation(const Call& c) {
  const Kernel kernel = c.work.kernel;
  const Activation gate = c.arithmetic().activation;  // plain: silu of a gate, else tanh's GELU
  const Activation alone = gate == Activation::kPlain ? Activation::kGeluTanh : gate;
  if (kernel == Kernel::kSwigluForward) {
    need_vectors(c, c.dim(1));
    swiglu_forward(c.stream(), c.compute(0), c.compute(1), c.dim(0), c.dim(1), gate);
    return;
  }
  if (kernel == Kernel::kSwigluBackward) {
    need_vectors(c, c.dim(1));
    swiglu_backward(c.stream(), c.compute(0), c.compute(1), c.compute(2), c.dim(0), c.dim(1), gate);
    return;
  }
  if (kernel == Kernel::kGeluForward) {
    gelu_forward(c.stream(), c.compute(0), c.compute(1), c.dim(0) * c.dim(1), alone);
    return;
  }
  if (kernel == Kernel::kGeluBackward) {
    gelu_backward(c.stream(), c.compute(0), c.compute(1), c.compute(2), c.dim(0) * c.dim(1), alone);
    return;
  }
  if (kernel == Kernel::kBiasForward) {
    bias_forward(c.stream(), c.compute(0), c.compute(1), c.dim(0), c.dim(1));
    return;
  }
  bias_backward(c.stream(), c.compute(0), c.master(1), c.dim(0), c.dim(1), c.flag(2), c.scratch());
}

void run_rotary(const Call& c) {
  const std::int64_t turned = c.dim(1) + c.dim(2);
  rotary(c.stream(), c.compute(0), {c.dim(0), turned, c.dim(3), (turned + c.dim(2)) * c.dim(3)},
         c.positions(c.dim(4), 6), c.turns(5), c.work.kernel == Kernel::kRotaryBackward);
}

void run_latent_heads(const Call& c) {
  const LatentHeads shape{c.dim(0), c.dim(1), c.dim(2), c.dim(3), c.dim(4)};
  for (const std::int64_t part : {shape.nope, shape.rope, shape.value}) {
    need_vectors(c, part);
  }
  const Positions positions = c.positions(c.dim(5), 7);
  if (c.work.kernel == Kernel::kLatentHeadsForward) {
    latent_heads_forward(c.stream(), shape, positions, c.turns(6), c.compute(0), c.compute(1),
                         c.compute(2), c.compute(3));
  } else {
    latent_heads_backward(c.stream(), shape, positions, c.turns(6), c.compute(0), c.compute(1),
                          c.compute(2), c.compute(3));
  }
}

void run_loss(const Call& c) {
  const Kernel kernel = c.work.kernel;
  if (kernel == Kernel::kLogitStatistics) {
    logit_statistics(c.stream(), c.compute(0), c.tokens(1), c.master(2), c.master(3), c.dim(0),
                     c.dim(1), c.dim(2), c.place(3) * c.dim(1), c.logit_numbers());
    return;
  }
  if (kernel == Kernel::kStatisticsRescale) {
    statistics_rescale(c.stream(), c.master(0), c.master(1), c.master(2), c.dim(0));
    return;
  }
  if (kernel == Kernel::kCrossEntropyLoss) {
    cross_entropy_loss(c.stream(), c.master(0), c.master(1), c.master(2), c.dim(0),
                       static_cast<double>(c.dim(1)));
    return;
  }
  cross_entropy_backward(c.stream(), c.compute(0), c.master(1), c.master(2), c.tokens(3), c.dim(0),
                         c.dim(1), c.dim(2), c.place(3) * c.dim(1), static_cast<double>(c.dim(4)),
                         c.logit_numbers());
}

void run_move(const Call& c) {
  const std::int64_t count = c.dim(0);
  if (c.work.kernel == Kernel::kZero) {
    const std::size_t width = c.is_master(0) ? sizeof(float) : sizeof(Bf16);
    check(
        cudaMemsetAsync(c.operands[0].data, 0, static_cast<std::size_t>(count) * width, c.stream()),
        "zero");
  } else if (c.work.kernel == Kernel::kScale) {
    need_vectors(c, 8);
    scale(c.stream(), c.compute(0), c.compute(1), count,
          static_cast<float>(c.arithmetic().residual_multiplier));
  } else if (c.work.kernel == Kernel::kAdd) {
    if (c.is_master(0)) {
      c.is_master(1) ? add(c.stream(), c.master(0), c.master(1), count)
                     : add(c.stream(), c.master(0), c.compute(1), count);
    } else if (c.is_master(1)) {
      add(c.stream(), c.compute(0), c.master(1), count);
    } else {
      need_vectors(c, 8);
      add(c.stream(), c.compute(0), c.compute(1), count);
    }
  } else if (c.is_master(0)) {
    c.is_master(1) ? cast(c.stream(), c.master(0), c.master(1), count)
                   : cast(c.stream(), c.master(0), c.compute(1), count);
  } else {
    c.is_master(1) ? cast(c.stream(), c.compute(0), c.master(1), count)
                   : cast(c.stream(), c.compute(0), c.compute(1), count);
  }
}

void run_optimizer(const Call& c) {
  const StepSettings& settings = *c.context.settings;
  if (c.work.kernel == Kernel::kSquaredNorm) {
    squared_norm(c.stream(),
                 {c.master(0), c.master(1), c.dim(0), c.place(1) * c.dim(0), c.dim(2),
                  static_cast<double>(c.dim(3)), static_cast<double>(c.dim(4))},
                 c.scratch());
  } else if (c.work.kernel == Kernel::kClipFactor) {
    clip_factor(c.stream(), c.master(0), c.master(1), c.master(2), settings.max_norm);
  } else {
    adamw(c.stream(), {c.master(0), c.master(1), c.master(2), c.master(3), c.master(4),
                       c.work.kernel == Kernel::kAdamwCast ? c.compute(5) : nullptr, c.dim(0),
                       settings.learning_rate, settings.beta1, settings.beta2, settings.epsilon,
                       settings.weight_decay, settings.step});
  }
}

}  // namespace

std::size_t scratch_bytes_of(const Work& work) {
  const Kernel kernel = work.kernel;
  if (kernel == Kernel::kLayerNormBackward || kernel == Kernel::kRmsNormBackward ||
      kernel == Kernel::kBiasBackward) {
    return scratch_bytes(work.dims[1]);
  }
  if (kernel == Kernel::kHeadNormBackward) {
    return scratch_bytes(work.dims[3]);
  }
  return kernel == Kernel::kSquaredNorm ? scratch_bytes(1) : 0;
}

void run_kernel(const KernelContext& context, const Work& work, std::span<const View> operands) {
  const Call call{context, work, operands};
  switch (work.kernel) {
    case Kernel::kEmbeddingForward:
    case Kernel::kEmbeddingBackward:
    case Kernel::kPositionForward:
    case Kernel::kPositionBackward:
      run_embedding(call);
      break;
    case Kernel::kMatmul:
      run_matmul(call);
      break;
    case Kernel::kLayerNormForward:
    case Kernel::kLayerNormBackward:
    case Kernel::kRmsNormForward:
    case Kernel::kRmsNormBackward:
      run_norm(call);
      break;
    case Kernel::kHeadNormForward:
    case Kernel::kHeadNormBackward:
      run_head_norm(call);
      break;
    case Kernel::kRotaryForward:
    case Kernel::kRotaryBackward:
      run_rotary(call);
      break;
    case Kernel::kLatentHeadsForward:
    case Kernel::kLatentHeadsBackward:
      run_latent_heads(call);
      break;
    case Kernel::kAttentionForward:
    case Kernel::kAttentionBackward:
      run_attention(call);
      break;
    case Kernel::kRouteForward:
    case Kernel::kRouteBackward:
    case Kernel::kExpertPlaces:
    case Kernel::kPermuteRows:
    case Kernel::kCombineRows:
    case Kernel::kCombineBackward:
    case Kernel::kRegroupRows:
    case Kernel::kExpertMatmul:
      run_experts(call);
      break;
    case Kernel::kNarrowScale:
    case Kernel::kNarrowCast:
    case Kernel::kNarrowTurned:
    case Kernel::kNarrowBoth:
    case Kernel::kNarrowMatmul:
    case Kernel::kExpertNarrowScale:
    case Kernel::kExpertNarrowCast:
    case Kernel::kExpertNarrowTurned:
    case Kernel::kExpertNarrowBoth:
    case Kernel::kExpertNarrowMatmul:
    case Kernel::kDelayedScales:
    case Kernel::kDelayedCast:
    case Kernel::kDelayedBoth:
    case Kernel::kExpertDelayedCast:
    case Kernel::kExpertDelayedBoth:
    case Kernel::kBlockCast:
    case Kernel::kBlockTurned:
    case Kernel::kBlockBoth:
    case Kernel::kBlockMatmul:
      run_narrow(call);
      break;
    case Kernel::kKeysOut:
    case Kernel::kKeysIn:
    case Kernel::kRowsInOrder:
    case Kernel::kSpreadHeads:
    case Kernel::kContextAttentionForward:
    case Kernel::kContextAttentionBackward:
    case Kernel::kRingAttentionForward:
    case Kernel::kRingMerge:
    case Kernel::kRingAttentionBackward:
      run_context(call);
      break;
    case Kernel::kBiasForward:
    case Kernel::kBiasBackward:
    case Kernel::kSwigluForward:
    case Kernel::kSwigluBackward:
    case Kernel::kGeluForward:
    case Kernel::kGeluBackward:
      run_activation(call);
      break;
    case Kernel::kAdd:
    case Kernel::kScale:
    case Kernel::kCast:
    case Kernel::kZero:
      run_move(call);
      break;
    case Kernel::kLogitStatistics:
    case Kernel::kStatisticsRescale:
    case Kernel::kCrossEntropyLoss:
    case Kernel::kCrossEntropyBackward:
      run_loss(call);
      break;
    case Kernel::kSquaredNorm:
    case Kernel::kClipFactor:
    case Kernel::kAdamw:
    case Kernel::kAdamwCast:
      run_optimizer(call);
      break;
    case Kernel::kModelledMatmul:
    case Kernel::kModelledAttention:
    case Kernel::kModelledPass:
      throw Error(std::string(signature_of(work.kernel).name),
                  "is timed by the simulator only; run a dense GPT or Llama model");
  }
  check(cudaGetLastError(), signature_of(work.kernel).name.data());
}

}  // namespace trireme::runtime::cuda
