# SPDX-License-Identifier: Apache-2.0
# libflashattn.a: one relocatable object with every symbol but flashattn_* made local, so that it cannot clash with
# another copy of anything it contains. --force-group-allocation turns COMDAT groups into ordinary sections first:
# localised group members would be dropped in favour of a consumer's copy at the final link, and unwinding through them
# would then crash.
find_program(FLASHATTN_LD NAMES ${CMAKE_LINKER} ld REQUIRED)
set(static_object ${CMAKE_CURRENT_BINARY_DIR}/flashattn_static.o)
set(static_archive ${CMAKE_CURRENT_BINARY_DIR}/libflashattn.a)
add_custom_command(
  OUTPUT ${static_archive}
  COMMAND ${FLASHATTN_LD} -r --force-group-allocation -o ${static_object} "$<TARGET_OBJECTS:flashattn_objects>"
  COMMAND ${CMAKE_OBJCOPY} --wildcard "--keep-global-symbol=flashattn_*" ${static_object}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${static_archive}
  COMMAND ${CMAKE_AR} rcsD ${static_archive} ${static_object}
  DEPENDS flashattn_objects "$<TARGET_OBJECTS:flashattn_objects>"
  COMMENT "Linking libflashattn.a into one object"
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(flashattn_archive ALL DEPENDS ${static_archive})

add_library(flashattn_static STATIC IMPORTED GLOBAL)
add_library(flashattn::static ALIAS flashattn_static)
add_dependencies(flashattn_static flashattn_archive)
set_target_properties(
  flashattn_static
  PROPERTIES IMPORTED_LOCATION ${static_archive}
             IMPORTED_LINK_INTERFACE_LANGUAGES CXX
             INTERFACE_INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR}/include
             INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS}")
