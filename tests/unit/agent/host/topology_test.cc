#include "agent/host/topology.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "base/cpu_set.h"
#include "base/file.h"
#include "base/strings.h"
#include "model/gpu_binding.h"

namespace muster::agent::topology_test {
namespace {

using model::BindTo;
using model::GpuBind;

TEST(Topology, CoresAreThoseOfTheAffinity) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const auto shape = read_node_shape();
  ASSERT_TRUE(shape.ok()) << shape.status();
  int cpus = 0;
  for (const auto& core : shape->cores) {
    for (const int cpu : core.cpus) {
      EXPECT_TRUE(CPU_ISSET(cpu, &before)) << cpu;
      ++cpus;
    }
  }
  EXPECT_EQ(cpus, CPU_COUNT(&before));
  EXPECT_GT(shape->memory_mib, 0);
}

// Each file in golden/ is a machine in hwloc's words and, below it, what bind_node makes of it for every --bind-to:
//
//   One sentence: what there is to see.
//   topology: package:2 core:16 pu:1
//   cpuset: 4-31                     (left out: all)
//   gpus: 0-15 0-15 16-31 -          (the CPUs near each; -: not known; left out: no GPU)
//   CUDA_VISIBLE_DEVICES: 3,1        (left out: not set)
//   ranks: 4
//
// In the tables a GPU is its number: "order" is the list under --gpu-bind order, in which set_device(local_rank) takes
// its own, "one" what device 0 is under --gpu-bind one. Under none nothing is set, and no cores are dealt by GPUs.
struct GoldenCase {
  std::string sentence;
  std::map<std::string, std::string> fields;

  std::string field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
  }
};

GoldenCase read_case(const std::string& text) {
  GoldenCase golden;
  const std::string head = text.substr(0, text.find("\n\n"));  // what split() returns points into it
  for (const std::string_view line : base::split(head, '\n')) {
    const auto colon = line.find(": ");
    if (golden.sentence.empty()) {
      golden.sentence = std::string(line);
    } else if (colon != std::string_view::npos) {
      golden.fields[std::string(line.substr(0, colon))] = std::string(line.substr(colon + 2));
    }
  }
  return golden;
}

model::NodeShape shape_of(const GoldenCase& golden) {
  hwloc_topology_t raw = nullptr;
  EXPECT_EQ(hwloc_topology_init(&raw), 0);
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, &hwloc_topology_destroy);
  EXPECT_EQ(hwloc_topology_set_synthetic(raw, golden.field("topology").c_str()), 0);
  EXPECT_EQ(hwloc_topology_load(raw), 0);
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> allowed(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  const std::string cpuset = golden.field("cpuset");
  if (cpuset.empty()) {
    hwloc_bitmap_fill(allowed.get());
  } else {
    EXPECT_EQ(hwloc_bitmap_list_sscanf(allowed.get(), cpuset.c_str()), 0);
  }
  model::NodeShape shape = node_shape_of(raw, allowed.get());
  const std::string gpus = golden.field("gpus");
  for (const std::string_view near : base::split(gpus, ' ')) {
    if (gpus.empty()) break;
    model::GpuShape& gpu = shape.gpus.emplace_back();
    gpu.index = static_cast<int>(shape.gpus.size()) - 1;
    gpu.uuid = fmt::format("GPU-{}", gpu.index);
    if (near != "-") gpu.cpus = *base::parse_number_list(near, base::kMaxCpu);
  }
  return shape;
}

model::NodeBinding bound(const model::NodeShape& node, int ranks, BindTo bind_to, GpuBind gpu_bind,
                         const model::GpuMasks& masks) {
  auto binding = model::bind_node(node, ranks, {.bind_to = bind_to, .gpu_bind = gpu_bind, .share_gpu = true}, masks);
  EXPECT_TRUE(binding.ok()) << binding.status();
  return binding.ok() ? *std::move(binding) : model::NodeBinding();
}

// "0,1" for "GPU-0,GPU-1"; "-" where nothing is set.
std::string shown(const model::RankGpus& gpus) {
  if (gpus.variables.empty()) return "-";
  EXPECT_EQ(gpus.variables.size(), 1U);
  EXPECT_EQ(gpus.variables.front().first, "CUDA_VISIBLE_DEVICES");
  std::vector<std::string> numbers;
  for (const std::string_view name : base::split(gpus.variables.front().second, ',')) {
    EXPECT_TRUE(name.starts_with("GPU-")) << name;
    numbers.emplace_back(name.substr(4));
  }
  return base::join(numbers, ",");
}

std::string table_of(const GoldenCase& golden, BindTo bind_to) {
  const model::NodeShape shape = shape_of(golden);
  const int ranks = std::stoi(golden.field("ranks"));
  model::GpuMasks masks;
  if (golden.fields.contains("CUDA_VISIBLE_DEVICES")) masks.cuda = golden.field("CUDA_VISIBLE_DEVICES");
  const auto order = bound(shape, ranks, bind_to, GpuBind::kOrder, masks);
  const auto one = bound(shape, ranks, bind_to, GpuBind::kOne, masks);
  const auto none = bound(shape, ranks, bind_to, GpuBind::kNone, masks);
  const std::size_t width = std::max<std::size_t>(5, shown(order.gpus.front()).size());
  std::string table = fmt::format("rank  threads  {:<{}}  one  cpus\n", "order", width);
  for (std::size_t rank = 0; rank < order.cores.size(); ++rank) {
    const model::RankBinding& cores = order.cores[rank];
    EXPECT_EQ(one.cores[rank].cpus, cores.cpus);
    EXPECT_EQ(shown(none.gpus[rank]), "-");
    table += fmt::format("{:>4}  {:>7}  {:<{}}  {:<3}  {}\n", rank, cores.physical_cores, shown(order.gpus[rank]),
                         width, shown(one.gpus[rank]), cores.cpus.empty() ? "all" : model::format_cpu_list(cores.cpus));
  }
  return table;
}

TEST(BindingGolden, TablesAreAsWritten) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("golden")) {
    const auto written = base::read_file(entry.path().string());
    ASSERT_TRUE(written.ok()) << written.status();
    const GoldenCase golden = read_case(*written);
    std::string text = written->substr(0, written->find("\n\n") + 1);
    for (const auto& [name, bind_to] :
         std::initializer_list<std::pair<const char*, BindTo>>{{"share", BindTo::kShare},
                                                               {"core", BindTo::kCore},
                                                               {"numa", BindTo::kNuma},
                                                               {"socket", BindTo::kSocket},
                                                               {"none", BindTo::kNone}}) {
      text += fmt::format("\n--bind-to {}\n{}", name, table_of(golden, bind_to));
    }
    EXPECT_EQ(text, *written) << entry.path().filename();
    ++files;
  }
  EXPECT_EQ(files, 15);
}

}  // namespace
}  // namespace muster::agent::topology_test
