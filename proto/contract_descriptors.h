// The contracts of the API with their comments, as protoc has compiled them: a google.protobuf.FileDescriptorSet of
// launcher.proto and of all that it imports. CMake writes the definition (proto/contract_descriptors.cmake).
#pragma once

#include <string_view>

namespace muster::proto {

std::string_view contract_descriptors();

}  // namespace muster::proto
