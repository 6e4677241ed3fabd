#include "planner/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "planner/plan/names.h"

namespace trireme::planner {
namespace {

constexpr std::int64_t kDegreeMax = 1'000'000'000;
constexpr std::size_t kChunksMax = 1 << 16;

constexpr std::pair<std::string_view, models::RecomputeModule> kModules[] = {
    {"core_attn", kCoreAttention},
    {"layernorm", kLayerNorm},
    {"mlp", kMlp},
    {"mla_up_proj", kMlaUpProjection},
    {"moe", kMoe},
    {"moe_act", kMoeActivation},
    {"shared_experts", kSharedExperts},
    {"op", kTorchPerOp},
};

// The degrees of the short form, longest names first so that "pp" does not swallow "vpp".
constexpr std::pair<std::string_view, std::int64_t Plan::*> kDegrees[] = {
    {"fsdp", &Plan::sharded}, {"vpp", &Plan::virtual_pipeline}, {"etp", &Plan::expert_tensor},
    {"tp", &Plan::tensor},    {"pp", &Plan::pipeline},          {"cp", &Plan::context},
    {"ep", &Plan::expert},    {"dp", &Plan::replicas},          {"mb", &Plan::micro_batch},
};

[[noreturn]] void refuse(std::string_view part, std::string_view right) {
  throw Error("--layout", fmt::format("'{}' is not a part of a layout; {}", part, right));
}

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t parse_count(std::string_view digits, std::string_view part) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure != std::errc() || end != digits.data() + digits.size() || value < 1 ||
      value > kDegreeMax) {
    refuse(part, fmt::format("its number must be between 1 and {}", kDegreeMax));
  }
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto cut = text.find(separator);
    parts.push_back(text.substr(0, cut));
    if (cut == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(cut + 1);
  }
}

void read_recompute(Plan& plan, std::string_view what, std::string_view part) {
  if (what == "none") {
    plan.recompute = Recompute::kNone;
  } else if (what == "selective") {
    plan.recompute = Recompute::kSelective;
  } else if (what.starts_with("full")) {
    plan.recompute = Recompute::kFull;
    what.remove_prefix(4);
    plan.recompute_layers = what.empty() ? -1 : parse_count(what, part);
  } else {
    plan.recompute = Recompute::kSelective;
    plan.recompute_modules = 0;
    for (const std::string_view name : split(what, '+')) {
      plan.recompute_modules =
          static_cast<std::uint16_t>(plan.recompute_modules | recompute_module_of(name));
    }
  }
}

// "20-20-20-18", or with runs "20x3-18"; 0 for a chunk of the embedding or the head alone.
void read_stage_layers(Plan& plan, std::string_view counts, std::string_view part) {
  for (const std::string_view run : split(counts, '-')) {
    const auto cut = run.find('x');
    const std::string_view layers = run.substr(0, cut);
    const std::int64_t times =
        cut == std::string_view::npos ? 1 : parse_count(run.substr(cut + 1), part);
    if (plan.stage_layers.size() + static_cast<std::size_t>(times) > kChunksMax) {
      refuse(part, fmt::format("it lists more than {} chunks", kChunksMax));
    }
    plan.stage_layers.insert(plan.stage_layers.end(), static_cast<std::size_t>(times),
                             layers == "0" ? 0 : parse_count(layers, part));
  }
}

std::string stage_layers_form(const Plan& plan) {
  constexpr std::ptrdiff_t kShortest = 3;  // a run
  std::string text;
  for (auto run = plan.stage_layers.begin(); run != plan.stage_layers.end();) {
    const auto end = std::find_if(run, plan.stage_layers.end(),
                                  [&](std::int64_t layers) { return layers != *run; });
    const std::ptrdiff_t length = end - run;
    const auto stop = length >= kShortest ? end : run + 1;
    text += fmt::format("{}{}", text.empty() ? ".layers" : "-", *run);
    text += length >= kShortest ? fmt::format("x{}", length) : "";
    run = stop;
  }
  return text;
}

void read_order(Plan& plan, std::string_view names, std::string_view part) {
  std::vector<Axis> order;
  for (const std::string_view name : split(names, '-')) {
    const std::optional<Axis> found = kAxisNames.value_of(name);
    if (!found || std::ranges::count(order, *found) > 0) {
      refuse(part, "an order names each of tp, cp, fsdp, dp, pp at most once, fastest first");
    }
    order.push_back(*found);
  }
  for (const Axis axis : Plan{}.order) {
    if (std::ranges::count(order, axis) == 0) {
      order.push_back(axis);
    }
  }
  std::ranges::copy(order, plan.order.begin());
}

bool read_degree(Plan& plan, std::string_view part) {
  for (const auto& [name, member] : kDegrees) {
    if (part.starts_with(name) && is_digits(part.substr(name.size()))) {
      plan.*member = parse_count(part.substr(name.size()), part);
      return true;
    }
  }
  return false;
}

// What is not a degree. `seen_sharding` and `seen_schedule` let defaults follow from the degrees.
struct Seen {
  bool sharding = false, schedule = false, sequence_parallel = false, virtual_pipeline = false;
};
void read_choice(Plan& plan, std::string_view part, Seen& seen) {
  if (const auto schedule = kScheduleNames.value_of(part)) {
    plan.schedule = *schedule;
    seen.schedule = true;
  } else if (part == "zero1" || part == "zero2" || part == "zero3") {
    plan.sharding = part == "zero1"   ? Sharding::kOptimizer
                    : part == "zero2" ? Sharding::kGradients
                                      : Sharding::kFull;
    seen.sharding = true;
  } else if (part == "sp" || part == "nosp") {
    plan.sequence_parallel = part == "sp";
    seen.sequence_parallel = true;
  } else if (part == "noreshard") {
    plan.reshard_after_forward = false;
  } else if (part == "mtpapart") {
    plan.prediction_apart = true;
  } else if (part.starts_with("rc-")) {
    read_recompute(plan, part.substr(3), part);
  } else if (part == "unitmodel") {
    plan.fsdp_unit = 0;
  } else if (part.starts_with("unit")) {
    plan.fsdp_unit = parse_count(part.substr(4), part);
  } else if (part.starts_with("layers")) {
    read_stage_layers(plan, part.substr(6), part);
  } else if (part.starts_with("order-")) {
    read_order(plan, part.substr(6), part);
  } else {
    refuse(part,
           "parts are tpN ppN vppN cpN epN etpN fsdpN dpN mbN zero1 zero2 zero3 rc-selective "
           "rc-full rc-fullN rc-op rc-core_attn+mlp gpipe 1f1b interleaved zb-h1 zb-h2 zb-v "
           "dualpipe-v noreshard sp nosp unitN unitmodel layersA-B-C mtpapart order-tp-fsdp-pp, "
           "joined by dots; "
           "docs/reading_plans.md says what each means");
  }
}

std::string recompute_form(const Plan& plan) {
  switch (plan.recompute) {
    case Recompute::kNone:
      return "";
    case Recompute::kFull:
      return plan.recompute_layers < 0 ? ".rc-full"
                                       : fmt::format(".rc-full{}", plan.recompute_layers);
    case Recompute::kSelective:
      break;
  }
  return plan.recompute_modules == kCoreAttention
             ? ".rc-selective"
             : fmt::format(".rc-{}", module_names(plan.recompute_modules));
}

std::string order_form(const Plan& plan) {
  const auto named = [&](const std::array<Axis, 5>& order) {
    std::string names;
    for (const Axis axis : order) {
      if (degree_of(plan, axis) > 1) {
        names += fmt::format("-{}", to_string(axis));
      }
    }
    return names;
  };
  const std::string names = named(plan.order);
  return names == named(Plan{}.order) ? "" : ".order" + names;
}

}  // namespace

std::uint16_t recompute_module_of(std::string_view name) {
  std::string known;
  for (const auto& [module_name, module_bit] : kModules) {
    if (module_name == name) {
      return module_bit;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", module_name);
  }
  throw Error("--recompute-modules",
              fmt::format("'{}' is not a module; the modules are {}", name, known));
}

std::string module_names(std::uint16_t modules) {
  std::string names;
  for (const auto& [name, bit] : kModules) {
    if ((modules & bit) != 0) {
      names += fmt::format("{}{}", names.empty() ? "" : "+", name);
    }
  }
  return names;
}

std::string short_form(const Plan& plan) {
  std::string text;
  const auto degree = [&](const char* name, std::int64_t value) {
    if (value > 1) {
      text += fmt::format("{}{}.", name, value);
    }
  };
  degree("tp", plan.tensor);
  degree("pp", plan.pipeline);
  degree("vpp", plan.virtual_pipeline);
  degree("cp", plan.context);
  degree("ep", plan.expert);
  if (plan.expert_tensor != 0 && plan.expert_tensor != plan.tensor) {  // with ep 1 too
    text += fmt::format("etp{}.", plan.expert_tensor);
  }
  degree("fsdp", plan.sharded);
  degree("dp", plan.replicas);
  text += fmt::format("mb{}", plan.micro_batch);
  if (plan.sharding == Sharding::kOptimizer || plan.sharding == Sharding::kGradients) {
    text += plan.sharding == Sharding::kOptimizer ? ".zero1" : ".zero2";
  }
  // Ranks that share the sequence may share the states with nobody else.
  const bool shards_all =
      plan.sharding == Sharding::kFull && (plan.sharded > 1 || plan.context > 1);
  text += shards_all && plan.sharded == 1 ? ".zero3" : "";
  const Schedule usual =
      plan.virtual_pipeline > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
  if (plan.pipeline > 1 && plan.schedule != usual) {
    text += fmt::format(".{}", to_string(plan.schedule));
  }
  text += recompute_form(plan);
  text += plan.tensor > 1 && !plan.sequence_parallel ? ".nosp" : "";
  if (shards_all) {
    text += plan.reshard_after_forward ? "" : ".noreshard";
    text += plan.fsdp_unit == 1   ? ""
            : plan.fsdp_unit == 0 ? ".unitmodel"
                                  : fmt::format(".unit{}", plan.fsdp_unit);
  }
  return text + stage_layers_form(plan) + (plan.prediction_apart ? ".mtpapart" : "") +
         order_form(plan);
}

// Parts that say the same thing of a layout: "tp8" and "tp4", "zero1" and "zero2".
std::string_view subject_of(std::string_view part) {
  for (const auto& [name, member] : kDegrees) {
    if (part.starts_with(name) && is_digits(part.substr(name.size()))) {
      return name;
    }
  }
  if (kScheduleNames.value_of(part)) {
    return "schedule";
  }
  for (const std::string_view name : {"zero", "rc-", "unit", "layers", "order-"}) {
    if (part.starts_with(name)) {
      return name;
    }
  }
  return part == "nosp" ? "sp" : part;
}

void check_said_once(const std::vector<std::string_view>& parts) {
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const auto again = std::find_if(parts.begin(), part, [&](std::string_view before) {
      return subject_of(before) == subject_of(*part);
    });
    if (again != part) {
      throw Error(std::string(*part),
                  fmt::format("the layout says {} already; one of them would be right", *again));
    }
  }
}

Plan parse_short_form(const std::string& text) {
  Plan plan;
  Seen seen;
  const auto parts = split(text, '.');
  check_said_once(parts);
  for (const std::string_view part : parts) {
    seen.virtual_pipeline = seen.virtual_pipeline || subject_of(part) == "vpp";
    if (!read_degree(plan, part)) {
      read_choice(plan, part, seen);
    }
  }
  if (!seen.sharding && plan.sharded > 1) {
    plan.sharding = Sharding::kFull;
  }
  if (!seen.schedule && plan.virtual_pipeline > 1) {
    plan.schedule = Schedule::kInterleaved;
  }
  if (is_in_v(plan.schedule) && plan.pipeline > 1 && !seen.virtual_pipeline) {
    plan.virtual_pipeline = kChunksInV;
  }
  if (!seen.sequence_parallel) {
    plan.sequence_parallel = plan.tensor > 1;
  }
  return plan;
}

std::string_view to_string(Sharding sharding) {
  return kShardingNames.name_of(sharding);
}

std::string_view to_string(Recompute recompute) {
  return kRecomputeNames.name_of(recompute);
}

std::string_view to_string(Schedule schedule) {
  return kScheduleNames.name_of(schedule);
}

std::string_view to_string(Axis axis) {
  return kAxisNames.name_of(axis);
}

std::int64_t degree_of(const Plan& plan, Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return plan.tensor;
    case Axis::kContext:
      return plan.context;
    case Axis::kSharded:
      return plan.sharded;
    case Axis::kReplica:
      return plan.replicas;
    case Axis::kPipeline:
      return plan.pipeline;
  }
  return 1;
}

std::int64_t stride_of(const Plan& plan, Axis axis) {
  std::int64_t stride = 1;
  for (const Axis inner : plan.order) {
    if (inner == axis) {
      return stride;
    }
    stride *= degree_of(plan, inner);
  }
  return stride;
}

}  // namespace trireme::planner
