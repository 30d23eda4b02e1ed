// Encoding and decoding of Question and GpuReport. Each struct has a write() and a read().
// Read encode() and decode_report() at the end first, then read_all(), which checks the bounds.

#include "agent/gpus/report.h"

#include "agent/process/wire.h"

namespace muster::agent::inline gpus {
namespace {

constexpr std::int32_t kUnknown = -1;
constexpr std::int32_t kMostPercent = 100;

void write(WireWriter& out, const GpuProcess& process) {
  out.number(process.pid);
  out.number(static_cast<std::uint8_t>(process.memory ? 1 : 0));
  if (process.memory) out.number(*process.memory);
}

void write(WireWriter& out, const NvidiaFile& gpu) {
  out.text(gpu.pci);
  out.text(gpu.uuid);
  out.text(gpu.model);
}

void write(WireWriter& out, const MigDevice& part);
void write(WireWriter& out, const NvidiaGpu& gpu);
void write(WireWriter& out, const FileGpu& gpu);

template <typename T>
void write_all(WireWriter& out, const std::vector<T>& values) {
  out.number(static_cast<std::uint32_t>(values.size()));
  for (const T& value : values) write(out, value);
}

void write(WireWriter& out, const MigDevice& part) {
  out.text(part.uuid);
  out.text(part.model);
  out.number(part.memory_total);
  out.number(part.memory_used);
  write_all(out, part.processes);
}

void write(WireWriter& out, const NvidiaGpu& gpu) {
  out.text(gpu.uuid);
  out.text(gpu.model);
  out.text(gpu.pci);
  out.number(gpu.memory_total);
  out.number(gpu.memory_used);
  out.number(gpu.busy_percent.value_or(kUnknown));
  out.number(static_cast<std::uint8_t>(gpu.is_divided ? 1 : 0));
  write_all(out, gpu.parts);
  out.number(static_cast<std::uint8_t>(gpu.knows_processes ? 1 : 0));
  write_all(out, gpu.processes);
}

void flag(WireWriter& out, bool value) {
  out.number(static_cast<std::uint8_t>(value ? 1 : 0));
}

void write(WireWriter& out, const FileGpu& gpu) {
  flag(out, gpu.is_intel);
  out.number(gpu.index);
  out.text(gpu.pci);
  flag(out, gpu.memory_used.has_value());
  if (gpu.memory_used) out.number(*gpu.memory_used);
  out.number(gpu.busy_percent.value_or(kUnknown));
  flag(out, gpu.shows_all);
  flag(out, gpu.shows_dead);
  flag(out, gpu.foreign_pids);
  write_all(out, gpu.processes);
}

bool read(WireReader& in, bool& value) {
  std::uint8_t byte = 0;
  if (!in.number(byte) || byte > 1) return false;
  value = byte == 1;
  return true;
}

bool read_percent(WireReader& in, std::optional<std::int32_t>& percent) {
  std::int32_t value = kUnknown;
  if (!in.number(value) || value < kUnknown || value > kMostPercent) return false;
  if (value != kUnknown) percent = value;
  return true;
}

bool read(WireReader& in, std::string& text) {
  return in.text(text) && text.size() <= kMaxText;
}

bool read(WireReader& in, GpuProcess& process) {
  bool has_memory = false;
  if (!in.number(process.pid) || process.pid <= 0 || !read(in, has_memory)) return false;
  return !has_memory || in.number(process.memory.emplace());
}

bool read(WireReader& in, NvidiaFile& gpu) {
  return read(in, gpu.pci) && read(in, gpu.uuid) && read(in, gpu.model);
}

bool read(WireReader& in, MigDevice& part);
bool read(WireReader& in, NvidiaGpu& gpu);
bool read(WireReader& in, FileGpu& gpu);

template <typename T>
bool read_all(WireReader& in, std::size_t most, std::vector<T>& values) {
  std::uint32_t count = 0;
  if (!in.number(count) || count > most) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!read(in, values.emplace_back())) return false;
  }
  return true;
}

bool read(WireReader& in, MigDevice& part) {
  return read(in, part.uuid) && read(in, part.model) && in.number(part.memory_total) && in.number(part.memory_used) &&
         read_all(in, kMaxProcesses, part.processes);
}

bool read(WireReader& in, NvidiaGpu& gpu) {
  return read(in, gpu.uuid) && read(in, gpu.model) && read(in, gpu.pci) && in.number(gpu.memory_total) &&
         in.number(gpu.memory_used) && read_percent(in, gpu.busy_percent) && read(in, gpu.is_divided) &&
         read_all(in, kMaxMigDevices, gpu.parts) && read(in, gpu.knows_processes) &&
         read_all(in, kMaxProcesses, gpu.processes);
}

bool read(WireReader& in, FileGpu& gpu) {
  bool has_memory = false;
  if (!read(in, gpu.is_intel) || !in.number(gpu.index) || gpu.index < 0) return false;
  if (!read(in, gpu.pci) || !read(in, has_memory)) return false;
  if (has_memory && !in.number(gpu.memory_used.emplace())) return false;
  return read_percent(in, gpu.busy_percent) && read(in, gpu.shows_all) && read(in, gpu.shows_dead) &&
         read(in, gpu.foreign_pids) && read_all(in, kMaxProcesses, gpu.processes);
}

bool read_files(WireReader& in, std::optional<std::vector<NvidiaFile>>& files) {
  bool is_there = false;
  if (!read(in, is_there)) return false;
  return !is_there || read_all(in, kMaxGpus, files.emplace());
}

}  // namespace

std::string encode(const Question& question) {
  WireWriter out;
  flag(out, question.nvidia);
  flag(out, question.files);
  flag(out, question.nvidia_files);
  out.text(question.root);
  return out.take();
}

base::Result<Question> decode_question(const std::string& payload) {
  WireReader in(payload);
  Question question;
  const bool is_whole = read(in, question.nvidia) && read(in, question.files) && read(in, question.nvidia_files) &&
                        in.text(question.root) && in.at_end();
  if (is_whole) return question;
  return base::error(base::Code::kInvalidArgument, "a GPU query of {} bytes cannot be parsed", payload.size());
}

std::string encode(const GpuReport& report) {
  WireWriter out;
  out.text(report.problem);
  out.text(report.driver);
  write_all(out, report.gpus);
  flag(out, report.foreign_pids);
  write_all(out, report.others);
  flag(out, report.nvidia_files.has_value());
  if (report.nvidia_files) write_all(out, *report.nvidia_files);
  return out.take();
}

base::Result<GpuReport> decode_report(const std::string& payload) {
  WireReader in(payload);
  GpuReport report;
  const bool is_whole = read(in, report.problem) && read(in, report.driver) && read_all(in, kMaxGpus, report.gpus) &&
                        read(in, report.foreign_pids) && read_all(in, kMaxGpus, report.others) &&
                        read_files(in, report.nvidia_files) && in.at_end();
  if (is_whole) return report;
  return base::error(base::Code::kInvalidArgument, "a GPU report of {} bytes cannot be parsed", payload.size());
}

}  // namespace muster::agent::gpus
