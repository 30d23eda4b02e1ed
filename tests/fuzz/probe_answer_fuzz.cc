// What a host answers to `muster doctor`: cutting and parsing it ends, and whatever it says becomes a table of
// printable, bounded lines and JSON. Input: frames of ProbeAnswer, of which those with facts are two hosts by turns.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "launcherd/doctor/judge.h"
#include "proto/diagnosis_json.h"
#include "proto/frame.h"

namespace {

void check(const muster::model::Check& check) {
  for (const std::string* text : {&check.name, &check.seen, &check.advice}) {
    MUSTER_CHECK(text->size() < 4096);
    MUSTER_CHECK(std::none_of(text->begin(), text->end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  proto::FrameReader reader;
  reader.feed({reinterpret_cast<const char*>(data), size});
  std::vector<launcherd::HostFindings> findings(2);
  for (std::size_t turn = 0;; ++turn) {
    const auto body = reader.next();
    if (!body.ok() || !*body) break;
    v1::ProbeAnswer answer;
    if (!answer.ParseFromString(**body)) break;
    launcherd::HostFindings& host = findings[turn % findings.size()];
    host.host.name = "n";
    if (answer.has_facts()) host.facts = answer.facts();
    if (answer.has_clock())
      host.clock = {std::chrono::nanoseconds(answer.clock().wall_ns()), std::chrono::nanoseconds(1)};
    if (answer.has_reached()) host.peer = {"n", answer.reached().address(), answer.reached().failure()};
  }
  for (const char* const link : {"auto", "ssh", "dial"}) {
    for (const model::HostDiagnosis& diagnosis : launcherd::judge_hosts(findings, link)) {
      for (const model::Check& each : diagnosis.checks) check(each);
      for (const model::Check& each : diagnosis.differences) check(each);
      const std::string line = proto::diagnosis_line(diagnosis);
      MUSTER_CHECK(line.find('\n') == line.size() - 1);
    }
  }
  return 0;
}
