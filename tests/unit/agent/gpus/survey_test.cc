#include "agent/gpus/helper/survey.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/gpus/fake_nvml.h"

namespace muster::agent::gpus::survey_test {
namespace {

const base::Status kUnsupported = base::error(base::Code::kUnimplemented, "f failed: Not Supported (3)");
const base::Status kClosed = base::error(base::Code::kPermissionDenied, "f failed: Insufficient Permissions (4)");
const base::Status kLost = base::error(base::Code::kInternal, "f failed: GPU is lost (15)");
const base::Status kNone = base::error(base::Code::kNotFound, "f failed: Not Found (6)");

FakeDevice whole(const std::string& uuid) {
  FakeDevice device;
  device.uuid = uuid;
  device.name = "NVIDIA H200";
  device.pci = "0000:1b:00.0";
  device.memory = NvmlMemory{100, 40};
  device.busy = 12;
  device.processes = std::vector<GpuProcess>{{.pid = 9, .memory = 30}, {.pid = 4}};
  return device;
}

GpuReport report_of(FakeNvml& nvml) {
  auto report = survey(nvml);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : GpuReport();
}

TEST(Survey, AGpuAsTheLibraryTellsIt) {
  FakeNvml nvml;
  nvml.devices = {whole("GPU-a")};
  const GpuReport report = report_of(nvml);
  EXPECT_EQ(report.driver, "550.54.15");
  EXPECT_EQ(report.problem, "");
  ASSERT_EQ(report.gpus.size(), 1u);
  const NvidiaGpu expected{.uuid = "GPU-a",
                           .model = "NVIDIA H200",
                           .pci = "0000:1b:00.0",
                           .memory_total = 100,
                           .memory_used = 40,
                           .busy_percent = 12,
                           .knows_processes = true,
                           .processes = {{.pid = 4}, {.pid = 9, .memory = 30}}};
  EXPECT_EQ(report.gpus[0], expected);
}

TEST(Survey, WhatIsNotToldIsLeftOut) {
  FakeNvml nvml;
  FakeDevice device = whole("GPU-a");
  device.memory = kUnsupported;
  device.busy = kUnsupported;
  device.divided = kUnsupported;
  device.processes = kUnsupported;
  nvml.devices = {device};
  const GpuReport report = report_of(nvml);
  EXPECT_EQ(report.gpus.at(0), (NvidiaGpu{.uuid = "GPU-a", .model = "NVIDIA H200", .pci = "0000:1b:00.0"}));
  EXPECT_EQ(report.problem, "");
}

TEST(Survey, OthersGpusAreNotOursAndLostOnesAreSaid) {
  FakeNvml nvml;
  nvml.devices = {whole("GPU-a"), whole("GPU-b"), whole("GPU-c"), whole("")};
  nvml.devices[0].handle = kClosed;
  nvml.devices[1].handle = kLost;
  const GpuReport report = report_of(nvml);
  ASSERT_EQ(report.gpus.size(), 1u);
  EXPECT_EQ(report.gpus[0].uuid, "GPU-c");
  EXPECT_EQ(report.problem,
            "GPU 1 of nvidia-smi cannot be used: f failed: GPU is lost (15); check nvidia-smi and the kernel log");
}

TEST(Survey, ADividedGpuHasPartsAndTheirProcesses) {
  FakeNvml nvml;
  FakeDevice device = whole("GPU-a");
  device.divided = true;
  device.busy = kUnsupported;
  device.processes = kClosed;  // as of one without privileges
  FakeDevice gap;
  gap.handle = kNone;
  FakeDevice second = whole("MIG-2");
  second.processes = std::vector<GpuProcess>{{.pid = 9, .memory = 50}};
  device.parts = {whole("MIG-1"), gap, second};
  nvml.devices = {device};
  const NvidiaGpu gpu = report_of(nvml).gpus.at(0);
  EXPECT_TRUE(gpu.is_divided);
  EXPECT_FALSE(gpu.busy_percent);
  ASSERT_EQ(gpu.parts.size(), 2u);
  EXPECT_EQ(gpu.parts[1].uuid, "MIG-2");
  EXPECT_EQ(gpu.parts[1].memory_total, 100u);
  EXPECT_TRUE(gpu.knows_processes);
  EXPECT_EQ(gpu.processes, (std::vector<GpuProcess>{{.pid = 4}, {.pid = 9, .memory = 50}}));
  EXPECT_EQ(gpu.parts[0].processes, (std::vector<GpuProcess>{{.pid = 4}, {.pid = 9, .memory = 30}}));
  EXPECT_EQ(gpu.parts[1].processes, (std::vector<GpuProcess>{{.pid = 9, .memory = 50}}));
}

TEST(Survey, WhoeverCannotCountKnowsNothing) {
  FakeNvml nvml;
  nvml.counting = kLost;
  EXPECT_EQ(survey(nvml).status().code(), base::Code::kInternal);
}

TEST(Survey, FitsIntoAMessage) {
  FakeNvml nvml;
  FakeDevice device = whole("GPU-" + std::string(1000, 'x'));
  device.busy = 400;
  device.processes = std::vector<GpuProcess>{{.pid = 0}, {.pid = -3}, {.pid = 5}};
  nvml.devices = {device};
  const auto again = decode_report(encode(report_of(nvml)));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->gpus.at(0).busy_percent, 100);
  EXPECT_EQ(again->gpus.at(0).processes.size(), 1u);
}

}  // namespace
}  // namespace muster::agent::gpus::survey_test
