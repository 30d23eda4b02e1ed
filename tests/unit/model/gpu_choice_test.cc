// What ranks are dealt of it, host by host: gpu_binding_test.cc.
#include "model/gpu_choice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::model::gpu_choice_test {
namespace {

NodeShape with_gpus(GpuVendor vendor, int count) {
  NodeShape node;
  for (int i = 0; i < count; ++i) node.gpus.push_back({.vendor = vendor, .index = i, .uuid = fmt::format("G{}", i)});
  return node;
}

TEST(MasksInForce, TheJobsGoBeforeTheLoginsOneByOne) {
  NodeShape node;
  node.gpu_masks = {.cuda = "0", .cuda_order = "PCI_BUS_ID", .rocr = "1"};
  EXPECT_EQ(masks_in_force(node, {}), node.gpu_masks);
  EXPECT_EQ(masks_in_force(node, {.cuda = "", .hip = "2"}),
            (GpuMasks{.cuda = "", .cuda_order = "PCI_BUS_ID", .rocr = "1", .hip = "2"}));
}

TEST(ChooseGpus, WhyThereIsNoneToDeal) {
  const auto why = [](const NodeShape& node, const GpuMasks& masks) {
    const auto choice = choose_gpus(node, {}, masks);
    EXPECT_TRUE(choice.ok() && choice->list.empty());
    return choice->hidden_by + (choice->is_meant ? " (meant)" : "");
  };
  const NodeShape nvidia = with_gpus(GpuVendor::kNvidia, 1);
  EXPECT_EQ(why({}, {.cuda = "0"}), "");
  EXPECT_EQ(why(nvidia, {.cuda = "none"}), "CUDA_VISIBLE_DEVICES is 'none', which leaves none of its 1 GPU");
  EXPECT_EQ(why(nvidia, {.cuda = "NoDevFiles"}),
            "CUDA_VISIBLE_DEVICES is 'NoDevFiles', which leaves none of its 1 GPU (meant)");
  EXPECT_EQ(why(nvidia, {.cuda = "\x1b[2J" + std::string(100, 'x')}),
            "CUDA_VISIBLE_DEVICES is '\\x1b[2J" + std::string(76, 'x') + "…', which leaves none of its 1 GPU");
  const NodeShape amd = with_gpus(GpuVendor::kAmd, 2);
  EXPECT_EQ(why(amd, {.rocr = ""}), "ROCR_VISIBLE_DEVICES is '', which leaves none of its 2 GPUs (meant)");
  EXPECT_EQ(why(amd, {.rocr = "7", .hip = "0"}), "ROCR_VISIBLE_DEVICES is '7', which leaves none of its 2 GPUs");
  EXPECT_EQ(why(amd, {.hip = "2"}), "HIP_VISIBLE_DEVICES is '2', which leaves none of its 2 GPUs");
  EXPECT_EQ(why(amd, {.cuda = "-1"}), "CUDA_VISIBLE_DEVICES is '-1', which leaves none of its 2 GPUs (meant)");
  EXPECT_EQ(why(amd, {.cuda = "0", .rocr = "1", .hip = "1"}),
            "HIP_VISIBLE_DEVICES is '1', which leaves none of the 1 that ROCR_VISIBLE_DEVICES does");
  EXPECT_EQ(why(with_gpus(GpuVendor::kIntel, 2), {}), "");  // order leaves them alone
}

TEST(ChooseGpus, IntelsAreForOneAndTile) {
  const NodeShape node = with_gpus(GpuVendor::kIntel, 2);
  EXPECT_EQ(choose_gpus(node, {.gpu_bind = GpuBind::kOne}, {})->list.size(), 2u);
  EXPECT_EQ(choose_gpus(node, {.gpus_per_rank = 2}, {}).status().message(),
            "--gpus-per-rank 2: its GPUs are Intel's, whose mask cannot order them: add --gpu-bind one or tile");
}

}  // namespace
}  // namespace muster::model::gpu_choice_test
