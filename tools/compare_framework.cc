#include "tools/compare_framework.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tools/compare_launches.h"
#include "tools/compare_live.h"

namespace trireme::tools {

bool compare_with_framework(const FrameworkFiles& files, const Console& console) {
  const nlohmann::json theirs = read_maybe_gzipped_json(files.theirs);
  const bool snapshot = is_allocator_snapshot(theirs);
  if (!snapshot && !is_profiler_trace(files.theirs, theirs)) {
    return false;
  }
  if (files.has_tolerance) {
    throw Error("--tolerance",
                "is of measured step times, which neither a profiler's trace nor a "
                "snapshot of the allocator has");
  }
  if (snapshot) {
    const LiveComparison found = compare_live(files.plan, theirs, files.theirs);
    if (files.json) {
      print_json(console, "compare", live_comparison_json(found));
    } else {
      print_live_comparison(console, found);
    }
    return true;
  }
  const LaunchComparison found = compare_launches(files.plan, theirs, files.theirs);
  if (files.json) {
    print_json(console, "compare", launches_json(found));
  } else {
    print_launches(console, found);
  }
  return true;
}

}  // namespace trireme::tools
