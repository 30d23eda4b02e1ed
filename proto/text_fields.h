// Checks and repairs `string` fields, which must hold UTF-8. protobuf writes other bytes but fails to read them. The
// reader then loses the whole message, and on a stream everything after it.
//
// Check a message where it is sent, not where it is made: control streams (ControlClient, ControlServer), frames, the
// API's requests and answers, JSON. Data that must arrive byte for byte has type `bytes` and is not touched here.
//
// Thread: any, one at a time per message.
#pragma once

#include <memory>

#include "base/status.h"

namespace google::protobuf {
class Message;
}

namespace muster::proto {

// INVALID_ARGUMENT names the first `string` field, also in nested messages, that does not hold UTF-8.
base::Status check_text(const google::protobuf::Message& message);

// Replaces each byte that is not part of a character by U+FFFD.
void mend_text(google::protobuf::Message& message);

// Null if there is nothing to repair.
std::unique_ptr<google::protobuf::Message> mended_copy(const google::protobuf::Message& message);

}  // namespace muster::proto
