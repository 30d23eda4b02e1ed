#include "model/gpu_mask.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::model::gpu_mask_test {
namespace {

NodeShape four_gpus(bool with_uuids = true) {
  NodeShape node;
  for (int i = 0; i < 4; ++i) {
    node.gpus.push_back({.index = i, .uuid = with_uuids ? std::string("GPU-") + "ab12"[i] + "0-" : ""});
  }
  node.gpus.push_back({.vendor = GpuVendor::kAmd, .index = 0, .uuid = "GPU-feed"});
  return node;
}

std::string shown(const std::vector<VisibleGpu>& visible) {
  std::vector<std::string> names;
  for (const VisibleGpu& entry : visible) {
    names.push_back(entry.gpu == nullptr ? entry.name : fmt::format("{}={}", entry.name, entry.gpu->index));
  }
  return base::join(names, " ");
}

std::string nvidia(std::optional<std::string> mask, bool with_uuids = true) {
  const NodeShape node = four_gpus(with_uuids);
  return shown(visible_gpus(node, GpuVendor::kNvidia, mask));
}

TEST(VisibleGpus, WithoutAMaskAllOfTheVendor) {
  EXPECT_EQ(nvidia(std::nullopt), "GPU-a0-=0 GPU-b0-=1 GPU-10-=2 GPU-20-=3");
  const NodeShape node = four_gpus();
  EXPECT_EQ(shown(visible_gpus(node, GpuVendor::kAmd, std::nullopt)), "GPU-feed=0");
}

TEST(VisibleGpus, AMaskIsReadAsCudaReadsIt) {
  const std::pair<const char*, const char*> table[] = {
      {"", ""},
      {"-1", ""},
      {"none", ""},
      {"2", "GPU-10-=2"},
      {"3,1", "GPU-20-=3 GPU-b0-=1"},
      {" 3 , 1 ", "GPU-20-=3 GPU-b0-=1"},
      {"1gpu,0x", "GPU-b0-=1 GPU-a0-=0"},  // the number that strtol finds
      {"0,4,1", "GPU-a0-=0"},              // the list ends where there is no such GPU
      {"0,-1,1", "GPU-a0-=0"},
      {"0,,1", "GPU-a0-=0"},
      {"1,1", ""},  // twice: none at all
      {"GPU-b0-", "GPU-b0-=1"},
      {"GPU-b", "GPU-b0-=1"},  // the beginning is enough …
      {"GPU-2,GPU-a", "GPU-20-=3 GPU-a0-=0"},
      {"GPU-", ""},  // … if only one begins so
      {"GPU-a,GPU-x,GPU-b", "GPU-a0-=0"},
      {"GPU-a,0", ""},
      {"99999999999999999999", ""},
      {"MIG-1234", "MIG-1234"},
      {"MIG-GPU-b0-/1/0,MIG-GPU-b0-/2/0", "MIG-GPU-b0-/1/0=1 MIG-GPU-b0-/2/0=1"},
      {"MIG-1,MIG-1", ""},
  };
  for (const auto& [mask, expected] : table) EXPECT_EQ(nvidia(mask), expected) << mask;
}

TEST(VisibleGpus, WithoutUuidsByIndex) {
  EXPECT_EQ(nvidia(std::nullopt, false), "0=0 1=1 2=2 3=3");
  EXPECT_EQ(nvidia("2,0", false), "2=2 0=0");
  EXPECT_EQ(nvidia("GPU-b", false), "");  // one of them, nobody knows which: the user's word stays as it is
  EXPECT_EQ(nvidia("0,MIG-1", false), "");
}

TEST(VisibleGpus, NumbersOfCudasOwnStayNumbers) {
  NodeShape node = four_gpus();
  EXPECT_EQ(cuda_numbers(node, {}), MaskNumbers::kByBus);
  node.gpus[4].model = "MI300X";  // AMD's
  EXPECT_EQ(cuda_numbers(node, {}), MaskNumbers::kByBus);
  node.gpus[2].model = "T4";
  EXPECT_EQ(cuda_numbers(node, {.cuda_order = "PCI_BUS_ID"}), MaskNumbers::kByBus);
  EXPECT_EQ(cuda_numbers(node, {.cuda_order = "FASTEST_FIRST"}), MaskNumbers::kUnknown);
  EXPECT_EQ(cuda_numbers(node, {}), MaskNumbers::kUnknown);
  const std::pair<const char*, const char*> table[] = {
      {"3, 1", "3 1"}, {"01", "1"}, {"0,4", "0"}, {"1,1", ""}, {"GPU-b,2", "GPU-b0-=1 2"},
      {"2,MIG-1", ""}, {"all", ""}};
  for (const auto& [mask, expected] : table) {
    EXPECT_EQ(shown(visible_gpus(node, GpuVendor::kNvidia, mask, MaskNumbers::kUnknown)), expected) << mask;
  }
}

TEST(VisibleAmdGpus, HipCountsWithinRocr) {
  NodeShape node;
  for (int i = 0; i < 4; ++i) {
    node.gpus.push_back({.vendor = GpuVendor::kAmd, .index = i, .uuid = fmt::format("GPU-{}0", i)});
  }
  const auto left = [&](const GpuMasks& masks) { return shown(visible_amd_gpus(node, masks)); };
  EXPECT_EQ(left({}), "GPU-00=0 GPU-10=1 GPU-20=2 GPU-30=3");
  EXPECT_EQ(left({.rocr = "3,1"}), "GPU-30=3 GPU-10=1");
  EXPECT_EQ(left({.rocr = "3,1", .hip = "1"}), "GPU-10=1");
  EXPECT_EQ(left({.rocr = "3,1", .hip = "1,0,1"}),
            "GPU-10=1 GPU-30=3");  // HIP, unlike CUDA, takes a second one for none
  EXPECT_EQ(left({.rocr = "3,1", .hip = "0,2,1"}), "GPU-30=3");
  EXPECT_EQ(left({.rocr = "3,1", .hip = "01"}), "");
  EXPECT_EQ(left({.rocr = "3,1", .hip = "GPU-1,0"}), "GPU-10=1 GPU-30=3");
  EXPECT_EQ(left({.rocr = "3,1", .hip = "GPU-2"}), "");
  EXPECT_EQ(left({.cuda = "2"}), "GPU-20=2");
  EXPECT_EQ(left({.cuda = "2", .hip = "0"}), "GPU-00=0");
  EXPECT_EQ(left({.cuda = "2", .hip = ""}), "GPU-20=2");
  EXPECT_EQ(left({.cuda = "", .hip = ""}), left({}));
  EXPECT_EQ(left({.rocr = "", .hip = "0"}), "");
  EXPECT_EQ(left({.rocr = "1,MIG-1", .hip = "GPU-1,1"}), "GPU-10=1");
  EXPECT_EQ(left({.ordinal = "2"}), "GPU-00=0 GPU-10=1 GPU-20=2 GPU-30=3");  // OpenCL's
}

TEST(GpuMasks, OfVariablesAndBack) {
  GpuMasks masks{.cuda = "1", .rocr = "2"};
  set_gpu_masks({{"CUDA_VISIBLE_DEVICES", ""},
                 {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                 {"HIP_VISIBLE_DEVICES", "0"},
                 {"GPU_DEVICE_ORDINAL", "1"},
                 {"OTHER", "3"}},
                masks);
  EXPECT_EQ(masks, (GpuMasks{.cuda = "", .cuda_order = "PCI_BUS_ID", .rocr = "2", .hip = "0", .ordinal = "1"}));
  GpuMasks back;
  set_gpu_masks(gpu_mask_variables(masks), back);
  EXPECT_EQ(back, masks);
  EXPECT_TRUE(gpu_mask_variables({}).empty());
}

}  // namespace
}  // namespace muster::model::gpu_mask_test
