// The other half of pipeline_take: puts headers, the function's result and the ICV together again,
// a packet at a time in the order of the items, and ends each with a verdict. What of the frame
// reached `j_` before a failure is the tail's to drop.
module pipeline_give (
    input  logic         clk,
    input  logic         rst,
    input  logic         asked, // a RESULT was put into the queue
    input  logic         i_valid,
    output logic         i_ready,
    input  logic [2:0]   i_kind,
    input  logic [3:0]   i_bytes,
    input  logic [63:0]  i_data,
    output logic         idle,
    // from the function
    input  logic         out_valid,
    output logic         out_ready,
    input  logic [127:0] out_block,
    input  logic [4:0]   out_bytes,
    input  logic         out_last,
    input  logic         icv_valid,
    output logic         icv_ready,
    input  logic [255:0] icv,
    // pieces of the finished frame, for stream_join
    output logic         j_valid,
    input  logic         j_ready,
    output logic [63:0]  j_data,
    output logic [3:0]   j_bytes,
    output logic         j_last,
    // the plan for the inspection, from before the frame's first piece to `fin`
    output logic [3:0]   look,      // IP checksum, UDP checksum, filter, signature
    output logic         look_fill, // fill the checksums in (else check them)
    output logic [13:0]  look_off,  // of the IPv4 header in the outgoing frame
    output logic         fin_valid,
    input  logic         fin_ready,
    output logic         fin_frame,   // pieces were given, and j_last
    output logic         fin_to_mac,
    output logic [127:0] fin_status
);
  localparam logic [7:0] OK = 0, BAD_ICV = 1; // status codes
  localparam logic [2:0] I_BEGIN = 0, I_PIECE = 1, I_RESULT = 2, I_COMPARE = 3, I_END = 4; // pipeline_take
  localparam logic [2:0] ITEM = 0, RESULT = 1, TAG = 2, APPEND = 3, REPORT = 4;
  logic [2:0] state;

  logic         from_mac, decrypt, given, half, done_crypto, icv_right;
  logic [7:0]   index, code;
  logic [15:0]  esp_off, held, taken;
  logic [31:0]  cookie;
  logic [5:0]   icv_bytes, left;
  logic [255:0] tag;
  logic [6:0]   pending; // results asked for
  assign idle = state == ITEM && !i_valid;
  assign out_ready = state == RESULT && j_ready && (half || out_bytes <= 5'd8);
  assign icv_ready = state == TAG;
  assign fin_valid = state == REPORT;
  assign fin_frame = given;
  assign fin_status = {taken, esp_off, cookie, 16'b0, 8'b0, index, 8'hff, 8'h00,
                       1'b0, from_mac, done_crypto, 4'b0, icv_right, code};

  // ---- the ICV that came, a word at a time
  logic equal;
  always_comb begin
    equal = 1'b1;
    for (int i = 0; i < 8; i++) if (4'(i) < i_bytes && i_data[8*i +: 8] != tag[8*i +: 8]) equal = 1'b0;
  end

  always_comb begin
    i_ready = 1'b0;
    j_valid = 1'b0;
    j_data = i_data;
    j_bytes = i_bytes;
    j_last = 1'b0;
    case (state)
      ITEM: begin
        i_ready = 1'b1;
        if (i_kind == I_PIECE) begin
          j_valid = i_valid;
          i_ready = j_ready;
        end else if (i_kind == I_END && given) begin
          j_valid = i_valid;
          j_bytes = '0;
          j_last = 1'b1;
          i_ready = j_ready;
        end
      end
      RESULT: begin
        j_valid = out_valid;
        j_data = half ? out_block[127:64] : out_block[63:0];
        j_bytes = half ? 4'(out_bytes - 5'd8) : out_bytes > 5'd8 ? 4'd8 : out_bytes[3:0];
      end
      APPEND: begin
        j_valid = 1'b1;
        j_data = tag[63:0];
        j_bytes = left > 6'd8 ? 4'd8 : left[3:0];
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= ITEM;
      half <= 1'b0;
      held <= '0;
      pending <= '0;
    end else begin
      pending <= pending + 7'(asked) - 7'(icv_valid && icv_ready);
      // What a packet cost is the time in which it was the oldest in the function.
      if (icv_valid && icv_ready) held <= '0;
      else if (pending != '0 && held != '1) held <= held + 1'b1;
      if (j_valid && j_ready) given <= 1'b1;
      if (state == RESULT && j_valid && j_ready) half <= !half && out_bytes > 5'd8;

      case (state)
        ITEM: if (i_valid && i_ready) begin
          case (i_kind)
            I_BEGIN: begin
              {icv_bytes, esp_off, index, decrypt, from_mac, fin_to_mac, look_off, look_fill, look} <= i_data[51:0];
              given <= 1'b0;
              done_crypto <= 1'b0;
              icv_right <= 1'b0;
              taken <= '0;
            end
            I_RESULT: state <= RESULT;
            I_COMPARE: begin
              tag <= tag >> 64;
              if (!equal) icv_right <= 1'b0;
            end
            I_END: begin
              cookie <= i_data[39:8];
              code <= i_data[7:0] == OK && done_crypto && !icv_right ? BAD_ICV : i_data[7:0];
              state <= REPORT;
            end
            default: ;
          endcase
        end
        RESULT: if (out_valid && out_ready && out_last) state <= TAG;
        TAG: begin
          tag <= icv;
          left <= icv_bytes;
          if (icv_valid) begin
            done_crypto <= 1'b1;
            icv_right <= 1'b1;
            taken <= held;
            state <= decrypt ? ITEM : APPEND;
          end
        end
        APPEND: if (j_ready) begin
          tag <= tag >> 64;
          left <= left - {2'b0, j_bytes};
          if (left <= 6'd8) state <= ITEM;
        end
        default: if (fin_ready) state <= ITEM;
      endcase
    end
  end
endmodule
