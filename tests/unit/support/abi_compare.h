// Whether functions that are declared by us and by those whose they are can be called alike: for checks at compile
// time.
#pragma once

#include <type_traits>

namespace muster::abi {

// Passed alike: pointers as pointers, numbers and enumerations of one size, structures of one size.
template <class A, class B>
constexpr bool kIsAlike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> ==
                                  std::is_class_v<B>&& std::is_floating_point_v<A> == std::is_floating_point_v<B>;

template <class A, class B>
struct Compare : std::false_type {};
template <class ResultA, class... A, class ResultB, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Compare<ResultA (*)(A...), ResultB (*)(B...)>
    : std::bool_constant<(kIsAlike<ResultA, ResultB> && ... && kIsAlike<A, B>)> {
};

}  // namespace muster::abi
