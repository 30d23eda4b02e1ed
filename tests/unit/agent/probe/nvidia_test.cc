#include "agent/probe/nvidia.h"

#include <gtest/gtest.h>

namespace muster::agent::nvidia_test {
namespace {

TEST(NvidiaVersion, OfTheKernelModuleNotOfTheCompiler) {
  EXPECT_EQ(parse_nvidia_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 2023\n"
                                 "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"),
            "535.104.05");
  EXPECT_EQ(parse_nvidia_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build"),
            "550.54.15");
}

TEST(NvidiaVersion, Unknown) {
  EXPECT_EQ(parse_nvidia_version(""), "of unknown version");
  EXPECT_EQ(parse_nvidia_version("something else\n1.2.3"), "of unknown version");
}

}  // namespace
}  // namespace muster::agent::nvidia_test
