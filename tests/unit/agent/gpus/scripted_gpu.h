// A host with the GPU "GPU-a" of an emulation of NVIDIA's library (scripted_nvml.cc); no GPU is asked.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "agent/gpus/job_gpus.h"
#include "agent/gpus/killed_helpers.h"
#include "agent/gpus/reader.h"
#include "base/env.h"
#include "base/loop.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::testing {

class ScriptedGpuFixture : public ::testing::Test {
 protected:
  ScriptedGpuFixture() {
    std::filesystem::copy(MUSTER_SCRIPTED_NVML, dir_.path() + "/libnvidia-ml.so.1");
    login_.set("LD_LIBRARY_PATH", dir_.path());
    host_.reader = &reader_;
    host_.known = {{.index = 0, .uuid = "GPU-a"}};
  }

  // The number of a process that has ended.
  static pid_t gone() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    ::waitpid(pid, nullptr, 0);
    return pid;
  }

  const testing_support::TempDir dir_;
  base::Environment login_;
  base::Loop loop_;
  gpus::KilledHelpers killed_{loop_};
  gpus::Reader reader_{loop_, login_, killed_};
  HostGpus host_;
};

}  // namespace muster::agent::testing
