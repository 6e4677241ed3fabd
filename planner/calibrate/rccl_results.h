// What rccl-tests writes with -x FILE: -Z json, a list of rows, or -Z csv, the same with a header:
// numCycle,name,nodes,ranks,...,size,type,redop,inPlace,time,algBw,busBw,wrong. Some versions leave
// the counts of ranks out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/calibrate/nccl_log.h"

namespace trireme::planner {

bool is_rccl_csv(const std::string& text);
// A table for each collective and number of ranks, in order of appearance. Throws Error: a row
// without a size or a time, wrong values, no row at all.
std::vector<NcclLogTable> rccl_csv(const std::string& text, const std::string& where);
std::vector<NcclLogTable> rccl_json(const nlohmann::json& rows, const std::string& where);

}  // namespace trireme::planner
