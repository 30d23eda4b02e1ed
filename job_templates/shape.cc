#include "job_templates/shape.h"

#include <algorithm>

#include "base/strings.h"

namespace muster::job_templates {
namespace {

model::GpuVendor vendor_of(GpuMaker maker) {
  switch (maker) {
    case GpuMaker::kAmd:
      return model::GpuVendor::kAmd;
    case GpuMaker::kIntel:
      return model::GpuVendor::kIntel;
    case GpuMaker::kNvidia:
      break;
  }
  return model::GpuVendor::kNvidia;
}

}  // namespace

base::Result<model::NodeShape> node_shape(const Template& job_template) {
  const NodeDescription& node = job_template.node;
  if (!node.is_known()) {
    return base::failed_precondition("the template {} does not describe a host", job_template.name);
  }
  model::NodeShape shape;
  const int all = node.sockets * node.cores;
  const int per_numa = node.cores / node.numa;
  for (int core = 0; core < all; ++core) {
    model::CoreShape& entry = shape.cores.emplace_back();
    entry.socket = core / node.cores;
    entry.numa = core / per_numa;
    for (int thread = 0; thread < node.threads; ++thread) entry.cpus.push_back(core + thread * all);
  }
  for (int i = 0; i < node.gpus; ++i) {
    model::GpuShape& gpu = shape.gpus.emplace_back();
    gpu.vendor = vendor_of(node.gpu_maker);
    gpu.index = i;
    gpu.tiles = node.gpu_tiles;
    if (node.gpu_cpus.empty()) continue;
    gpu.cpus = node.gpu_cpus[static_cast<std::size_t>(i)];
    const auto near = std::ranges::find_if(
        shape.cores, [&](const model::CoreShape& core) { return core.cpus.front() == gpu.cpus.front(); });
    if (near != shape.cores.end()) gpu.numa = near->numa;
  }
  return shape;
}

std::vector<std::string> made_up_names(const NodeDescription& node, int count) {
  const std::string pattern = node.names.empty() ? "host{n}" : node.names;
  const auto open = pattern.find('{');
  const auto close = pattern.find('}', open);
  std::vector<std::string> names;
  for (int i = 1; i <= count; ++i) {
    if (open == std::string::npos || close == std::string::npos) {
      names.push_back(fmt::format("{}{}", pattern, i));
      continue;
    }
    const auto colon = pattern.find(':', open);
    const auto width = colon < close ? base::parse_decimal(pattern.substr(colon + 1, close - colon - 1), 9) : 0L;
    names.push_back(
        fmt::format("{}{:0{}}{}", pattern.substr(0, open), i, width.value_or(0), pattern.substr(close + 1)));
  }
  return names;
}

}  // namespace muster::job_templates
