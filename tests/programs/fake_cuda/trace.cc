#include "tests/programs/fake_cuda/trace.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Trace {
  std::atomic<bool> is_on{false};
  std::mutex mutex;
  std::vector<std::string> lines;
};
Trace& all() {
  static auto* const kOne = new Trace;  // threads use it until the process ends
  return *kOne;
}
void add(const std::string& what) {
  const std::lock_guard lock(all().mutex);
  all().lines.push_back(std::to_string(gettid()) + " " + what);
}
std::string number_of(const void* pointer) {
  return std::to_string(reinterpret_cast<std::uintptr_t>(pointer));
}

}  // namespace

void fake_cuda::trace(const char* function, const void* stream, const void* event) {
  if (all().is_on) add(function + (" " + number_of(stream)) + " " + number_of(event));
}

void fake_cuda_trace_begin() {
  all().is_on = true;
}
void fake_cuda_note(const char* text) {
  if (all().is_on) add(std::string("note ") + text);
}
const char* fake_cuda_trace() {
  thread_local std::string text;
  text.clear();
  const std::lock_guard lock(all().mutex);
  for (const std::string& line : all().lines) text += line + "\n";
  return text.c_str();
}
