#include "proto/diagnosis_json.h"

#include "base/strings.h"
#include "proto/message_json.h"
#include "proto/muster/v1/doctor.pb.h"

namespace muster::proto {
namespace {

v1::CheckState proto_state(model::CheckState state) {
  switch (state) {
    case model::CheckState::kOk:
      return v1::CHECK_STATE_OK;
    case model::CheckState::kWarn:
      return v1::CHECK_STATE_WARN;
    case model::CheckState::kFail:
      return v1::CHECK_STATE_FAIL;
  }
  return v1::CHECK_STATE_UNSPECIFIED;
}

void fill(const model::Check& from, v1::Check& to) {
  to.set_name(base::valid_utf8(from.name));
  to.set_state(proto_state(from.state));
  to.set_seen(base::valid_utf8(from.seen));
  to.set_advice(base::valid_utf8(from.advice));
}

}  // namespace

std::string diagnosis_line(const model::HostDiagnosis& diagnosis) {
  v1::HostDiagnosis message;
  message.set_host(base::valid_utf8(diagnosis.host));
  message.set_state(proto_state(diagnosis.state()));
  for (const model::Check& check : diagnosis.checks) fill(check, *message.add_checks());
  for (const model::Check& check : diagnosis.differences) fill(check, *message.add_differences());
  return message_line(message);
}

}  // namespace muster::proto
