// Measures the job store: appends per second under group commit, and the time from append() to its answer.
//   job_store [--json] [--dir DIR] [--jobs 1000] [--events 20]
// One batch an event. "n under way": n submitters, each of which appends its next batch when the last was answered.
// Beside it the disk's own pace: 4 KiB at the end of a file and fdatasync, which no store that keeps its word beats
// one batch at a time.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "launcherd/store/job_store.h"
#include "launcherd/store/state_directory.h"

namespace {

using namespace muster;
using std::chrono::steady_clock;
using Micros = std::chrono::duration<double, std::micro>;

struct Options {
  bool json = false;
  std::string directory = std::filesystem::temp_directory_path().string();
  int jobs = 1000;
  int events = 20;
};

struct Row {
  std::string load;
  std::size_t count = 0;
  double seconds = 0;
  std::vector<double> micros;  // sorted

  double at(double share) const {
    return micros.empty() ? 0 : micros[static_cast<std::size_t>(share * static_cast<double>(micros.size() - 1))];
  }
};

[[noreturn]] void fail(std::string_view why) {
  fmt::print(stderr, "job_store: {}\n", why);
  std::exit(1);
}

template <typename T>
T must(base::Result<T> result) {
  if (!result.ok()) fail(result.status().message());
  return std::move(result).value();
}

int number(const char* text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text, text + std::strlen(text), value);
  if (problem != std::errc() || *end != '\0' || value < 1) fail(fmt::format("'{}' is no number of things", text));
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) fail("usage: job_store [--json] [--dir DIR] [--jobs N] [--events N]");
    const char* const value = argv[++i];
    if (word == "--dir") {
      options.directory = value;
    } else if (word == "--jobs") {
      options.jobs = number(value);
    } else if (word == "--events") {
      options.events = number(value);
    } else {
      fail(fmt::format("unknown option {}", word));
    }
  }
  return options;
}

Row measure_disk(const std::string& directory) {
  const base::UniqueFd file(::open((directory + "/pace").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string block(4096, 'x');
  Row row{.load = "write 4 KiB + fdatasync", .count = 200, .micros = {}};
  const auto begin = steady_clock::now();
  for (std::size_t i = 0; i < row.count; ++i) {
    const auto before = steady_clock::now();
    if (::write(file.get(), block.data(), block.size()) < 0 || ::fdatasync(file.get()) != 0) fail("the disk failed");
    row.micros.push_back(Micros(steady_clock::now() - before).count());
  }
  row.seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  std::ranges::sort(row.micros);
  return row;
}

// Appends `batch(n)` for n = 0 … count - 1, `under_way` at a time.
class Load {
 public:
  Load(base::Loop& loop, launcherd::JobStore& store, std::function<launcherd::Batch(std::size_t)> batch)
      : loop_(loop), store_(store), batch_(std::move(batch)) {}

  Row run(std::string name, std::size_t count, std::size_t under_way) {
    row_ = {.load = std::move(name), .count = count, .micros = {}};
    row_.micros.reserve(count);
    next_ = 0;
    const auto begin = steady_clock::now();
    for (std::size_t i = 0; i < std::min(count, under_way); ++i) append_one();
    loop_.run();
    row_.seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
    std::ranges::sort(row_.micros);
    return std::move(row_);
  }

 private:
  void append_one() {
    const auto before = steady_clock::now();
    store_.append(batch_(next_++), [this, before](base::Status status) {
      if (!status.ok()) fail(status.message());
      row_.micros.push_back(Micros(steady_clock::now() - before).count());
      if (next_ < row_.count) append_one();
      if (row_.micros.size() == row_.count) loop_.stop();
    });
  }

  base::Loop& loop_;
  launcherd::JobStore& store_;
  const std::function<launcherd::Batch(std::size_t)> batch_;
  Row row_;
  std::size_t next_ = 0;
};

std::vector<Row> measure(const Options& options, const std::string& directory) {
  const launcherd::StateDirectory state = must(launcherd::StateDirectory::open(directory));
  base::Loop loop;
  const auto store = must(launcherd::JobStore::open(state.database(), loop));
  std::vector<base::JobId> ids;
  for (int i = 0; i < options.jobs; ++i) ids.push_back(base::JobId::random());
  const std::string spec(1500, 's');
  const std::string message(120, 'm');
  const auto submission = [&](std::size_t n) -> launcherd::Batch {
    return {launcherd::NewJob{.id = ids[n], .request_id = ids[n].str(), .spec = spec, .environment = spec}};
  };
  const auto event = [&](std::size_t n) -> launcherd::Batch {
    return {launcherd::NewEvent{.job = ids[n % ids.size()], .message = message}};
  };
  std::vector<Row> rows = {measure_disk(directory)};
  rows.push_back(Load(loop, *store, submission).run("submissions, 50 under way", ids.size(), 50));
  Load events(loop, *store, event);
  const std::size_t count = ids.size() * static_cast<std::size_t>(options.events);
  rows.push_back(events.run("events, 1 under way", std::min<std::size_t>(count, 500), 1));
  rows.push_back(events.run("events, 50 under way", count, 50));
  rows.push_back(events.run("events, 1000 under way", count, 1000));
  return rows;
}

void print(const std::vector<Row>& rows, const Options& options) {
  if (!options.json) {
    fmt::print("{:<28} {:>8} {:>10} {:>9} {:>9} {:>9}\n", "load", "appends", "a second", "p50 µs", "p99 µs", "max µs");
  }
  for (const Row& row : rows) {
    const double rate = static_cast<double>(row.count) / row.seconds;
    if (options.json) {
      fmt::print(
          R"({{"bench":"job_store","load":"{}","appends":{},"per_second":{:.0f},"p50_us":{:.0f},"p99_us":{:.0f},)"
          R"("max_us":{:.0f}}})"
          "\n",
          row.load, row.count, rate, row.at(0.5), row.at(0.99), row.at(1));
    } else {
      fmt::print("{:<28} {:>8} {:>10.0f} {:>9.0f} {:>9.0f} {:>9.0f}\n", row.load, row.count, rate, row.at(0.5),
                 row.at(0.99), row.at(1));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::string directory = options.directory + "/job_store.XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) fail(fmt::format("cannot make a directory in {}", options.directory));
  const std::vector<Row> rows = measure(options, directory);
  std::filesystem::remove_all(directory);
  print(rows, options);
  return 0;
}
