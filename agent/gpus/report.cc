// Encoding and decoding of Question and GpuReport. One fields() for each struct serves both, and checks the bounds.
// Read encode() and decode_report() at the end first.

#include "agent/gpus/report.h"

#include "agent/process/fields.h"

namespace muster::agent::inline gpus {
namespace {

constexpr std::int32_t kUnknown = -1;
constexpr std::int32_t kMostPercent = 100;

bool percent_field(FieldWriter& io, const std::optional<std::int32_t>& value) {
  return io(value.value_or(kUnknown));
}

bool percent_field(FieldReader& io, std::optional<std::int32_t>& value) {
  std::int32_t number = kUnknown;
  if (!io(number) || number < kUnknown || number > kMostPercent) return false;
  if (number != kUnknown) value = number;
  return true;
}

template <MessageOf<std::vector<GpuProcess>> M>
bool process_list(auto& io, M& m) {
  return io.list(m, kMaxProcesses, [&](auto& each) { return io(each.pid) && each.pid > 0 && io(each.memory); });
}

template <MessageOf<MigDevice> M>
bool fields(auto& io, M& m) {
  return io(m.uuid, m.model, m.memory_total, m.memory_used) && process_list(io, m.processes);
}

template <MessageOf<NvidiaGpu> M>
bool fields(auto& io, M& m) {
  return io(m.uuid, m.model, m.pci, m.memory_total, m.memory_used) && percent_field(io, m.busy_percent) &&
         io(m.is_divided) && io.list(m.parts, kMaxMigDevices, [&](auto& each) { return fields(io, each); }) &&
         io(m.knows_processes) && process_list(io, m.processes);
}

template <MessageOf<FileGpu> M>
bool fields(auto& io, M& m) {
  return io(m.is_intel, m.index) && m.index >= 0 && io(m.pci, m.memory_used) && percent_field(io, m.busy_percent) &&
         io(m.shows_all, m.shows_dead, m.foreign_pids) && process_list(io, m.processes);
}

bool file_list(FieldWriter& io, const std::optional<std::vector<NvidiaFile>>& files) {
  io(files.has_value());
  return !files ||
         io.list(*files, kMaxGpus, [&](const NvidiaFile& each) { return io(each.pci, each.uuid, each.model); });
}

bool file_list(FieldReader& io, std::optional<std::vector<NvidiaFile>>& files) {
  bool is_there = false;
  if (!io(is_there)) return false;
  return !is_there ||
         io.list(files.emplace(), kMaxGpus, [&](NvidiaFile& each) { return io(each.pci, each.uuid, each.model); });
}

template <MessageOf<GpuReport> M>
bool fields(auto& io, M& m) {
  const auto each = [&](auto& gpu) { return fields(io, gpu); };
  return io(m.problem, m.driver) && io.list(m.gpus, kMaxGpus, each) && io(m.foreign_pids) &&
         io.list(m.others, kMaxGpus, each) && file_list(io, m.nvidia_files);
}

template <MessageOf<Question> M>
bool fields(auto& io, M& m) {
  return io(m.nvidia, m.files, m.nvidia_files, m.root);
}

}  // namespace

std::string encode(const Question& question) {
  FieldWriter out;
  fields(out, question);
  return out.take();
}

base::Result<Question> decode_question(const std::string& payload) {
  FieldReader in(payload);
  Question question;
  if (fields(in, question) && in.at_end()) return question;
  return base::invalid_argument("a GPU query of {} bytes cannot be parsed", payload.size());
}

std::string encode(const GpuReport& report) {
  FieldWriter out;
  fields(out, report);
  return out.take();
}

base::Result<GpuReport> decode_report(const std::string& payload) {
  FieldReader in(payload, kMaxText);
  GpuReport report;
  if (fields(in, report) && in.at_end()) return report;
  return base::invalid_argument("a GPU report of {} bytes cannot be parsed", payload.size());
}

}  // namespace muster::agent::gpus
