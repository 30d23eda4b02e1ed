#include "agent/gpus/report.h"

#include <gtest/gtest.h>

#include "agent/process/wire.h"

namespace muster::agent::gpus::report_test {
namespace {

GpuReport sample() {
  NvidiaGpu whole{.uuid = "GPU-a",
                  .model = "NVIDIA H200",
                  .pci = "0000:1b:00.0",
                  .memory_total = 150ULL << 30,
                  .memory_used = 3ULL << 30,
                  .busy_percent = 97,
                  .knows_processes = true,
                  .processes = {{.pid = 7, .memory = 1 << 20}, {.pid = 9}}};
  NvidiaGpu divided{.uuid = "GPU-b",
                    .is_divided = true,
                    .parts = {{.uuid = "MIG-1", .memory_total = 10, .processes = {{.pid = 8}}}, {.uuid = "MIG-2"}}};
  const FileGpu amd{.index = 1,
                    .pci = "0000:c1:00.0",
                    .memory_used = 7,
                    .busy_percent = 0,
                    .shows_all = true,
                    .shows_dead = true,
                    .processes = {{.pid = 5}}};
  const FileGpu intel{.is_intel = true, .foreign_pids = true};
  return {.problem = "GPU 3 cannot be used",
          .driver = "550.54.15",
          .gpus = {whole, divided},
          .foreign_pids = true,
          .others = {amd, intel},
          .nvidia_files = {{{.pci = "0000:1b:00.0", .uuid = "GPU-a", .model = "NVIDIA H200"}, {}}}};
}

TEST(GpuReport, ArrivesAsItWas) {
  for (const GpuReport& report : {sample(), GpuReport(), GpuReport{.problem = "none"}}) {
    const auto again = decode_report(encode(report));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, report);
  }
}

TEST(GpuReport, NoPartOfOneIsOne) {
  const std::string bytes = encode(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_report(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(decode_report(bytes + '\0').ok());
}

TEST(GpuReport, WhatCannotBeIsRefused) {
  const auto is_taken = [](const auto& change) {
    GpuReport report = sample();
    change(report);
    return decode_report(encode(report)).ok();
  };
  EXPECT_TRUE(is_taken([](GpuReport&) {}));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.gpus[0].busy_percent = 101; }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.gpus[0].busy_percent = -2; }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.gpus[0].processes[0].pid = 0; }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.gpus[0].processes[0].pid = -4; }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.gpus[0].model = std::string(kMaxText + 1, 'x'); }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.gpus.resize(kMaxGpus + 1); }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.gpus[1].parts.resize(kMaxMigDevices + 1); }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.gpus[1].parts[0].processes[0].pid = 0; }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.others[0].pci = std::string(kMaxText + 1, 'x'); }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.others.resize(kMaxGpus + 1); }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.others[0].index = -1; }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.nvidia_files->resize(kMaxGpus + 1); }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.nvidia_files->at(0).model = std::string(kMaxText + 1, 'x'); }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.others[0].busy_percent = 101; }));
  EXPECT_FALSE(is_taken([](GpuReport& report) { report.others[0].processes[0].pid = 0; }));
}

TEST(GpuReport, ACountWithoutItsEntriesIsRefused) {
  WireWriter out;
  out.text("");
  out.text("550");
  out.number(std::uint32_t{1024});
  EXPECT_FALSE(decode_report(out.take()).ok());
}

TEST(GpuQuestion, ArrivesAsItWas) {
  for (const Question& question :
       {Question(), Question{.nvidia = false, .files = true, .nvidia_files = true, .root = "/tmp/x"}}) {
    const std::string bytes = encode(question);
    const auto again = decode_question(bytes);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, question);
    for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_question(bytes.substr(0, size)).ok());
    EXPECT_FALSE(decode_question(bytes + '\0').ok());
  }
}

}  // namespace
}  // namespace muster::agent::gpus::report_test
